// SPDX-License-Identifier: BSD-2-Clause
#include "sample/cgroups.h"

#include "target/cgroup.h"

const char *xp_cgroups_of(struct xp_text_pool *cgroups, pid_t pid)
{
	char path[XP_CGROUP_BYTES] = "/";

	cgroups->bytes_max = XP_CGROUPS_BYTES_MAX;
	return pid && xp_target_cgroup(pid, path) ? NULL : xp_text_pool_keep(cgroups, path);
}
