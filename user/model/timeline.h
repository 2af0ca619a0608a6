/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the calls and the events in the FDR logs of a recording as the slices and instants of a timeline.
 *
 * The slices of a function have the same total duration as in `llvm-xray account`. A call without an exit ends with its
 * caller, or when its program was replaced by exec, and its slice is marked; at the end of the recording, it stays
 * open. With a time window, slices are cut at its start and end.
 *
 * Memory: that of log_walk.h and log_functions.h.
 */
#ifndef XPROF_MODEL_TIMELINE_H
#define XPROF_MODEL_TIMELINE_H

#include "format/perfetto.h"
#include "model/read_samples.h"

/* Like xp_log_walk(). *written: number of calls and events. Returns 0, -ENOMEM, -EAGAIN, or an error of writing. */
int xp_timeline_write_calls(struct xp_perfetto *perfetto, const struct xp_model_source *source, uint64_t *written,
			    bool *broken);

/*
 * Writes the waits of a recording (record --off-cpu) as slices of a timeline, on a track next to that of the thread:
 *
 *	track of the waiting thread	[ lock                ][ runnable ]
 *						      ^ flow
 *	track of the thread that wakes			wakes server (7)
 *
 * If only some waits were recorded, each has the argument `weight`: the number of waits that it represents.
 *
 * model: with keep_times. start_ns: of the recording. Cuts off what precedes from_ns in the recording. All threads are
 * described. Memory: 32 bytes a wait, while they are written. Returns 0, -ENOMEM, or an error of writing.
 */
int xp_timeline_waits_write(struct xp_model *model, struct xp_perfetto *perfetto, uint64_t start_ns, uint64_t from_ns);

/*
 * Writes the hits of USDT probes (record --usdt) as instants on the tracks of their threads, with their arguments.
 * model: with keep_times. start_ns: of the recording. Sorts the hits. All threads are described. Returns 0, -ENOMEM, or
 * an error of writing.
 */
int xp_timeline_hits_write(struct xp_model *model, struct xp_perfetto *perfetto, uint64_t start_ns);

#endif
