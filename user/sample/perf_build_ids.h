/* SPDX-License-Identifier: BSD-2-Clause */
/* The build ids of mapped files. Each file is read once, while a process that maps it is alive. */
#ifndef XPROF_SAMPLE_PERF_BUILD_IDS_H
#define XPROF_SAMPLE_PERF_BUILD_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "format/perfdata.h"
#include "target/address_space.h"

/*
 * Limits of the files that xprof opens: BURST at a time, and HZ per second on average. Opening a file and reading its
 * notes takes about 30 us. Without the limits, processes that map many files could keep xprof from reading its ring
 * buffers.
 */
#define XP_PERF_BUILD_IDS_BURST 4096
#define XP_PERF_BUILD_IDS_HZ 1000

struct xp_perf_build_id {
	const struct xp_file *file; /* NULL: the file has not been read yet */
	uint8_t build_id[XP_PERFDATA_BUILD_ID_BYTES];
	uint8_t bytes; /* 0: the file has no build ID, or could not be read */
};

/* Initially zeroed except for ticks, which means empty. */
struct xp_perf_build_ids {
	uint64_t ticks; /* average time between two files, in TSC ticks */
	uint64_t next_tsc;
	struct xp_perf_build_id *ids; /* indexed by xp_file.index */
	size_t room;
};

/* Returns the build ID of the mapped file. Returns NULL if it is not available now. Valid until the next call. */
const struct xp_perf_build_id *xp_perf_build_ids_get(struct xp_perf_build_ids *ids, pid_t pid, const struct xp_vma *vma,
						     uint64_t tsc);
void xp_perf_build_ids_free(struct xp_perf_build_ids *ids);

#endif
