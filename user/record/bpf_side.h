/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's side of a recording: owns the loaded BPF programs, the rings to which they write events, the merge that
 * sorts these events by time, and the counts of lost events.
 */
#ifndef XPROF_RECORD_BPF_SIDE_H
#define XPROF_RECORD_BPF_SIDE_H

#include <stdint.h>

#include "base/clock.h"
#include "kernel/merge.h"
#include "kernel/programs.h"
#include "kernel/rings.h"

struct xp_bpf_side {
	struct xp_programs programs;
	struct xp_rings *rings;
	struct xp_merge *merge;
	/* Counts of this part of the recording, as of the last xp_bpf_side_read_losses(): */
	struct xp_bpf_counters *counters; /* [programs.cpus] */
	uint64_t missed;		  /* runs of programs that the kernel skipped */
	/* Counts before this part began: */
	struct xp_bpf_counters *counters_before;
	uint64_t missed_before;
};

/*
 * Loads the programs. clock: for the times of events, borrowed. Returns 0, -ENOMEM or an error of bpf(2). The caller
 * calls xp_bpf_side_close() also after an error; that is safe on a zeroed struct.
 */
int xp_bpf_side_open(struct xp_bpf_side *side, const struct xp_programs_options *options, uint64_t ring_bytes,
		     const struct xp_clock *clock);
void xp_bpf_side_close(struct xp_bpf_side *side);

/* Reads the counts of lost events. */
void xp_bpf_side_read_losses(struct xp_bpf_side *side);
/* The recording begins: calls that were lost before, while sleds were attached, are not part of it. */
void xp_bpf_side_begin(struct xp_bpf_side *side);
/* A new part of the recording begins, right after xp_bpf_side_read_losses(): all counts are zero. */
void xp_bpf_side_begin_part(struct xp_bpf_side *side);
/* Returns how many events of these kinds, from first to last, were lost because a ring was full, on all CPUs. */
uint64_t xp_bpf_side_lost(const struct xp_bpf_side *side, enum xp_event_kind first, enum xp_event_kind last);

#endif
