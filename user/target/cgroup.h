/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cgroup path of a process from /proc/PID/cgroup, which identifies containers and services.
 *
 * xprof reads the path once per sampled process, because a process rarely moves to another cgroup. A cgroup ID in each
 * sample (bpf_get_current_cgroup_id(); perf: PERF_SAMPLE_CGROUP) would cost 8 bytes and a helper call.
 */
#ifndef XPROF_TARGET_CGROUP_H
#define XPROF_TARGET_CGROUP_H

#include <stddef.h>
#include <sys/types.h>

/* Longer paths are treated as unknown. A container in a Kubernetes pod has about 200 bytes. */
#define XP_CGROUP_BYTES 512

/*
 * Gets the path of the process's cgroup v2, relative to the mount of the hierarchy. If that is the root, because the
 * machine uses cgroup v1, gets the longest path in the v1 hierarchies. Returns 0 or -errno: -ESRCH if the process has
 * ended, -EINVAL if no path fits. The path is untrusted.
 */
int xp_target_cgroup(pid_t pid, char path[XP_CGROUP_BYTES]);

/* Like xp_target_cgroup(), from the text of /proc/PID/cgroup, which it modifies. */
int xp_cgroup_parse(char *text, char path[XP_CGROUP_BYTES]);

#endif
