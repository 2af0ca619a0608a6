/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the gperftools profiles of a recording, in its directory: one of the samples of each program that a process
 * ran, and one of its waits in us. What they say comes from perf.data and the jitdumps.
 *
 * Addresses in a profile are not those of the process. Each file has a range of its own, in which its addresses are as
 * linked plus a constant, so nothing overlaps: neither two files that were at one address in turn, nor two JIT
 * functions. Its names are in sym/ (store/sym_files.h). Code without such a file, and JIT code, gets a file with only
 * names there, and addresses that number its sampled instructions.
 */
#ifndef XPROF_EXPORT_PROFILES_H
#define XPROF_EXPORT_PROFILES_H

/*
 * Replaces profiles that are there. Without a perf.data there are none to make. Prints errors, and how many samples in
 * JIT code have a name. Returns 0 or -errno; -EBADMSG if a part of the recording is malformed, and what precedes it
 * counts.
 */
int xp_export_profiles(const char *directory);

#endif
