/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cgroup of a process, as /proc/PID/cgroup names it: the path that containers and services are known by.
 *
 * A sample could carry the group's number (bpf_get_current_cgroup_id(), and PERF_SAMPLE_CGROUP for perf), at 8 bytes
 * and a helper call each. A process rarely moves to another group, so it is read once for each sampled process.
 */
#ifndef XPROF_TARGET_CGROUP_H
#define XPROF_TARGET_CGROUP_H

#include <stddef.h>
#include <sys/types.h>

/* Longer paths are unknown: a container in a pod of Kubernetes has some 200 bytes. */
#define XP_CGROUP_BYTES 512

/*
 * The path of the process's group below the mount of its hierarchy, that of version 2. Where that is the root, because
 * the machine uses version 1, it is the longest path in the hierarchies of version 1. Returns 0 or -errno: -ESRCH if
 * the process is gone, -EINVAL if the file has no path that fits. The text may contain anything.
 */
int xp_target_cgroup(pid_t pid, char path[XP_CGROUP_BYTES]);

/* Like xp_target_cgroup(), from the text of such a file, which it modifies. */
int xp_cgroup_parse(char *text, char path[XP_CGROUP_BYTES]);

#endif
