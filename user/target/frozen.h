/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Returns whether a process is frozen with its cgroup: by cgroup.freeze (v2) or by the freezer of v1, which `docker
 * pause` uses. A frozen process handles no signal and executes nothing until it is thawed.
 */
#ifndef XPROF_TARGET_FROZEN_H
#define XPROF_TARGET_FROZEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Returns false if cgroups are not mounted, because the state is unknown then. */
bool xp_target_frozen(pid_t pid);

#endif
