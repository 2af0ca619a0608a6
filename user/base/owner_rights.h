/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives root the rights of a directory's owner while it works there. Links and special files in the directory then lead
 * root only to files that the owner can access.
 */
#ifndef XPROF_BASE_OWNER_RIGHTS_H
#define XPROF_BASE_OWNER_RIGHTS_H

#include <sys/stat.h>

/*
 * Gives root the rights of the directory's owner, and drops root's supplementary groups permanently. Does nothing for
 * other users. Returns 0 or -errno; -ENOTUNIQ if root owns the directory but others may write to it. Call
 * xp_owner_rights_return() even after an error. Calls can be nested: the rights of the outermost call apply.
 */
int xp_owner_rights_take(const struct stat *dir);

/* Returns 0, or -errno if xprof cannot become its own user again. */
int xp_owner_rights_return(void);

#endif
