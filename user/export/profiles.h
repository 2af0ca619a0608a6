/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the gperftools profiles of a recording, in its directory: one of the samples of each program that a process
 * ran, and one of its waits in us. The data comes from perf.data and the jitdumps.
 *
 * A profile has its own addresses: each file gets a range, and its addresses there are its link-time addresses plus a
 * constant. So two files, or two JIT functions, that were at the same address at different times do not overlap. The
 * names of a file are in sym/ (store/sym_files.h). JIT code, and code without such a file, gets a file with only names,
 * and addresses that number its sampled instructions.
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
