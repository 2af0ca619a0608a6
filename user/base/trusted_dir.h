/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens a directory that a user names, for an xprof that runs as root. */
#ifndef XPROF_BASE_TRUSTED_DIR_H
#define XPROF_BASE_TRUSTED_DIR_H

/*
 * Opens the directory for reading. A symbolic link on the path that lies in a sticky, world-writable directory is
 * followed only if it belongs to xprof's user, to the user behind sudo or to the owner of that directory. The kernel
 * does the same where fs.protected_symlinks is set, which not every system has. Returns a descriptor or -errno:
 * -EREMCHG for any other such link, or an error of openat(2).
 */
int xp_trusted_dir_open(const char *path);

/*
 * Like xp_trusted_dir_open(), for a directory whose files root changes or gives away: root follows only links that it
 * owns, or that the user behind sudo owns, in any directory.
 */
int xp_own_links_dir_open(const char *path);

#endif
