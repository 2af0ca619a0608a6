/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives root the rights of a directory's owner while it works there. Links and special files in the directory then lead
 * root only to files that the owner can access.
 */
#ifndef XPROF_BASE_OWNER_RIGHTS_H
#define XPROF_BASE_OWNER_RIGHTS_H

#include <sys/stat.h>

/*
 * Root takes the rights of the directory's owner, and gives up its supplementary groups for good. Other users keep
 * theirs. Returns 0 or -errno; -ENOTUNIQ if the directory is root's, but others may write to it. In any case the caller
 * calls xp_owner_rights_return(). Such pairs nest: the rights of the outermost one count.
 */
int xp_owner_rights_take(const struct stat *dir);

/* Returns 0, or -errno if xprof cannot become its own user again. */
int xp_owner_rights_return(void);

#endif
