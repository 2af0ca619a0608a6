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

/*
 * The same for one whose files root changes or gives away: root follows only its own links and those of the user behind
 * sudo, wherever they are.
 */
int xp_own_links_dir_open(const char *path);

#endif
