/* SPDX-License-Identifier: BSD-2-Clause */
/* The cgroups of sampled processes; each path is stored once. */
#ifndef XPROF_SAMPLE_CGROUPS_H
#define XPROF_SAMPLE_CGROUPS_H

#include <sys/types.h>

#include "base/text_pool.h"

/*
 * Maximum total length of the stored paths, because users can create any number of cgroups. Beyond it, the cgroup of a
 * process is unknown.
 */
#define XP_CGROUPS_BYTES_MAX (4u << 20)

/*
 * Returns the path of the current cgroup of the process (target/cgroup.h), valid until the pool is freed. PID 0
 * represents kernel threads, which are in the root cgroup. Returns NULL if the process has exited or the pool is full.
 * Zero *cgroups before the first call.
 */
const char *xp_cgroups_of(struct xp_text_pool *cgroups, pid_t pid);

#endif
