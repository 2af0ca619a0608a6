/* SPDX-License-Identifier: BSD-2-Clause */
/* A directory that a user names, opened by root. */
#ifndef XPROF_TRUSTED_DIR_H
#define XPROF_TRUSTED_DIR_H

/*
 * Opens the directory for reading. A symbolic link on the way, in a directory that everybody may write to, is followed
 * only if it is root's, the user's behind sudo, or of that directory's owner: what the kernel does where
 * fs.protected_symlinks is set, which not every system has. A descriptor, or -errno of openat(2); -EREMCHG: such a
 * link.
 */
int xp_trusted_dir_open(const char *path);

#endif
