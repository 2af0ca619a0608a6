/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the waits of a recording (record --off-cpu) as slices of a timeline, on a track beside that of the thread:
 *
 *	track of the waiting thread	[ lock                ][ runnable ]
 *								^ flow
 *	track of the thread that wakes			wakes server (7)
 *
 * Where only some waits were recorded, each has the argument `weight`: the number of waits that it represents.
 *
 * Memory: 32 bytes a wait, while they are written.
 */
#ifndef XPROF_MODEL_TIMELINE_WAITS_H
#define XPROF_MODEL_TIMELINE_WAITS_H

#include "format/perfetto.h"
#include "model/model.h"

/*
 * model: with keep_times. start_ns: of the recording; what precedes from_ns in it is cut off. All threads are
 * described. Returns 0, -ENOMEM, or an error of writing.
 */
int xp_timeline_waits_write(struct xp_model *model, struct xp_perfetto *perfetto, uint64_t start_ns, uint64_t from_ns);

#endif
