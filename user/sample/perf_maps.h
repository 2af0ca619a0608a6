/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What perf is told of the mappings of processes. Two kinds are told apart: memory of JIT compilers, which is all that
 * the process itself has made executable, and the rest.
 */
#ifndef XPROF_PERF_MAPS_H
#define XPROF_PERF_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "format/perfdata.h"
#include "sample/perf_build_ids.h"
#include "kernel/sideband.h"
#include "target/address_space.h"

/* Of each process; one that has more files mapped makes the file no larger. */
#define XP_PERF_MAPS_MAX 8192

/* Where they go. */
struct xp_perf_maps {
	struct xp_perfdata *perfdata;
	struct xp_perf_build_ids build_ids;
};

/*
 * A file's path as perf is told it, clean: memory without a file is "//anon", for whose code it looks in
 * /tmp/perf-PID.map. In path, of size bytes, or static.
 */
const char *xp_perf_maps_path(const struct xp_file *file, bool has_build_id, char *path, size_t size);

/* All return the writer's error; what perf cannot or must not be told (xp_perfdata_map()) is none. */

int xp_perf_maps_put(struct xp_perf_maps *maps, uint64_t tsc, pid_t pid, pid_t tid, const struct xp_vma *vma);
/* All of a process, of one kind. */
int xp_perf_maps_put_all(struct xp_perf_maps *maps, uint64_t tsc, pid_t pid, const struct xp_space *space, bool jit);
/* Of memory of JIT compilers that an event tells of, what was no such memory before: see perf_out.h. */
int xp_perf_maps_put_new(struct xp_perf_maps *maps, const struct xp_sideband_event *event,
			 const struct xp_space *before);

bool xp_perf_maps_has_jit(const struct xp_space *space);
/* Does an event tell of such memory? */
bool xp_perf_maps_is_jit(const struct xp_sideband_event *event);

#endif
