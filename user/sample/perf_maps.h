/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The records of mappings in the perf.data file. There are two kinds of mappings: JIT memory, which is all memory that
 * the process itself has made executable, and the rest.
 */
#ifndef XPROF_SAMPLE_PERF_MAPS_H
#define XPROF_SAMPLE_PERF_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "format/perfdata.h"
#include "kernel/sideband.h"
#include "sample/perf_build_ids.h"
#include "target/address_space.h"

/* The maximum number of mappings written per process. Further mappings of a process are not written. */
#define XP_PERF_MAPS_MAX 8192

/* Where the records are written. */
struct xp_perf_maps {
	struct xp_perfdata *perfdata;
	struct xp_perf_build_ids build_ids;
};

/*
 * The cleaned path of a file as written for perf. Memory without a file is "//anon"; perf looks for the names of its
 * code in /tmp/perf-PID.map. Returns path, of size bytes, or a static string.
 */
const char *xp_perf_maps_path(const struct xp_file *file, bool has_build_id, char *path, size_t size);

/* The functions below return the writer's error. They skip mappings that perf cannot read (see xp_perfdata_map()). */

int xp_perf_maps_write(struct xp_perf_maps *maps, uint64_t tsc, pid_t pid, pid_t tid, const struct xp_vma *vma);
/* Writes all mappings of one kind that a process has. */
int xp_perf_maps_write_all(struct xp_perf_maps *maps, uint64_t tsc, pid_t pid, const struct xp_address_space *space,
			   bool jit);
/* Writes those parts of the JIT memory in an event that were not JIT memory before: see perf_out.h. */
int xp_perf_maps_write_new(struct xp_perf_maps *maps, const struct xp_sideband_event *event,
			   const struct xp_address_space *before);

bool xp_perf_maps_has_jit(const struct xp_address_space *space);
/* Returns whether an event reports JIT memory. */
bool xp_perf_maps_is_jit(const struct xp_sideband_event *event);

#endif
