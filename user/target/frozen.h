/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a process is frozen with its cgroup: by cgroup.freeze (version 2), or by the freezer of version 1, as
 * `docker pause` does. It takes no signal and executes nothing until it is thawed.
 */
#ifndef XPROF_TARGET_FROZEN_H
#define XPROF_TARGET_FROZEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Returns false if cgroups are not mounted, because the state is unknown then. */
bool xp_target_frozen(pid_t pid);

#endif
