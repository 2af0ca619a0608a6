/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a process is frozen with its control group: by cgroup.freeze (version 2), or by the freezer of version 1, as
 * `docker pause` does. It takes no signal and executes nothing until it is thawed.
 */
#ifndef XPROF_TARGET_FROZEN_H
#define XPROF_TARGET_FROZEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Returns false if control groups are not mounted, because the state is unknown then. */
bool xp_target_frozen(pid_t pid);

/*
 * The parts, for tests: a line of /proc/PID/cgroup, and a line of /proc/self/mountinfo that may be the mount of its
 * hierarchy. path is the group's, below the root of the mount. Both functions modify the text.
 */
struct xp_cgroup {
	bool freezer; /* version 1's freezer; otherwise version 2 */
	const char *path;
};
/* Returns false for another hierarchy. */
bool xp_cgroup_parse(struct xp_cgroup *cgroup, char *line);
/*
 * The path of the group's directory below the mount. Returns NULL if the mount is of another hierarchy or does not
 * contain it.
 */
const char *xp_cgroup_find(const struct xp_cgroup *cgroup, char *mountinfo_line, const char **mount);

#endif
