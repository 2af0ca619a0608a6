/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens a directory that a user named, for an xprof that runs as root. */
#ifndef XPROF_BASE_TRUSTED_DIR_H
#define XPROF_BASE_TRUSTED_DIR_H

/*
 * Opens a directory for reading. In a sticky, world-writable directory, follows a symbolic link only if its owner is
 * xprof's user, the user who ran sudo, or the owner of that directory. The kernel does the same if
 * fs.protected_symlinks is set, which some systems do not set. Returns a descriptor or -errno: -EREMCHG for a link that
 * it does not follow, or an error of openat(2).
 */
int xp_trusted_dir_open(const char *path);

/*
 * Like xp_trusted_dir_open(), for a directory in which root changes the contents or the owner of files. Root follows
 * only links that belong to root or to the user who ran sudo, in any directory.
 */
int xp_own_links_dir_open(const char *path);

#endif
