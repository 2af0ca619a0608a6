/* SPDX-License-Identifier: BSD-2-Clause */
/* The cgroups of sampled processes; each path is stored once. */
#ifndef XPROF_SAMPLE_CGROUPS_H
#define XPROF_SAMPLE_CGROUPS_H

#include <stddef.h>
#include <sys/types.h>

#include "base/hash.h"

/* Users make groups: processes in further ones have an unknown group. With paths, 4 MiB at most. */
#define XP_CGROUPS_MAX 8192

/* Empty if zeroed. */
struct xp_cgroups {
	char **paths;
	size_t count;
	size_t room;
	struct xp_hash by_path;
};

/*
 * The group that the process is in now (target/cgroup.h), valid until xp_cgroups_free(). pid 0 represents kernel
 * threads, which are in the root. NULL: the process is gone, or the path is not kept.
 */
const char *xp_cgroups_of(struct xp_cgroups *cgroups, pid_t pid);
void xp_cgroups_free(struct xp_cgroups *cgroups);

#endif
