/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a process is frozen with its control group: by cgroup.freeze (version 2), or by the freezer of version 1, as
 * `docker pause` does it. It takes no signal and executes nothing until it is thawed.
 */
#ifndef XPROF_TARGET_FROZEN_H
#define XPROF_TARGET_FROZEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Where control groups are not mounted nothing can be told: false. */
bool xp_target_frozen(pid_t pid);

/*
 * The parts, for tests. A line of /proc/self/mountinfo: whether it is the mount of the hierarchy of that line of
 * /proc/PID/cgroup, and then where; path: of the group, below the mount's root. The texts are changed.
 */
struct xp_cgroup {
	bool freezer; /* version 1's; otherwise version 2 */
	const char *path;
};
/* False: another hierarchy. */
bool xp_cgroup_parse(struct xp_cgroup *cgroup, char *line);
/* Where the group's directory is, below the mount; NULL: it is not of that hierarchy, or outside of it. */
const char *xp_cgroup_find(const struct xp_cgroup *cgroup, char *mountinfo_line, const char **mount);

#endif
