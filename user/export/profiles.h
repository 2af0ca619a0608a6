/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the gperftools profiles of a recording in its directory: for each program that a process ran, a profile of its
 * samples, and one of its waits in us. The data comes from perf.data and the jitdumps.
 *
 * A profile has its own addresses: each file gets a range, and its addresses there are its link-time addresses plus a
 * constant. So two files, or two JIT functions, that were at the same address at different times do not overlap. The
 * names of a file are in sym/ (store/sym_files.h). For JIT code, and code without such a file, this writes a file with
 * only names, and numbers the sampled instructions to get addresses.
 */
#ifndef XPROF_EXPORT_PROFILES_H
#define XPROF_EXPORT_PROFILES_H

/*
 * Replaces existing profiles. Without a perf.data, does nothing. Prints errors, and how many samples in JIT code have a
 * name. Returns 0 or -errno: -EBADMSG if a part of the recording is malformed; the data before it was used.
 */
int xp_export_profiles(const char *directory);

#endif
