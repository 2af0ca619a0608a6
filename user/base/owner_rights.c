// SPDX-License-Identifier: BSD-2-Clause
#include "base/owner_rights.h"

#include <errno.h>
#include <grp.h>
#include <unistd.h>

static unsigned int depth; /* calls of xp_owner_rights_take() without xp_owner_rights_return() */

int xp_owner_rights_take(const struct stat *dir)
{
	depth++;
	if (geteuid())
		return 0;
	if (!dir->st_uid)
		return dir->st_mode & (S_IWGRP | S_IWOTH) ? -ENOTUNIQ : 0;
	return setgroups(0, NULL) || setegid(dir->st_gid) || seteuid(dir->st_uid) ? -errno : 0;
}

int xp_owner_rights_return(void)
{
	if (depth && --depth)
		return 0;
	return seteuid(getuid()) || setegid(getgid()) ? -errno : 0;
}
