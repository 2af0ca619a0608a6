/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the waits of a recording (record --off-cpu) as slices of a timeline, on a track beside that of the thread:
 *
 *	track of the waiting thread	[ lock                ][ runnable ]
 *								^ flow
 *	track of the thread that wakes			wakes server (7)
 *
 * Where only some waits were recorded, each has the argument `weight`: how many it stands for.
 *
 * Memory: 72 bytes a wait, up to XP_TIMED_WAITS_MAX, and 32 while they are written.
 */
#ifndef XPROF_MODEL_TIMELINE_WAITS_H
#define XPROF_MODEL_TIMELINE_WAITS_H

#include "format/perfetto.h"
#include "model/thread_times.h"

/* Zeroed but for what is not private: empty. */
struct xp_timeline_waits {
	struct xp_model *model; /* whose threads and stacks they have */
	uint64_t from_ns;	/* what precedes it is cut off */
	uint64_t dropped;	/* waits beyond the limit */
	size_t count;
	/* private */
	struct xp_timed_wait *list;
	size_t room;
};

/* Takes a wait, as the function of struct xp_model_waits. arg: the struct xp_timeline_waits. Returns 0 or -ENOMEM. */
int xp_timeline_waits_add(void *arg, const struct xp_model_sample *sample, const struct xp_wait_record *wait);

/* Leaves those whose stacks are selected by functions. Call it after naming. Returns 0 or -ENOMEM. */
int xp_timeline_waits_select(struct xp_timeline_waits *waits, const struct xp_select *select);

/* start_ns: of the recording. All threads are described. Returns 0, -ENOMEM, or an error of writing. */
int xp_timeline_waits_write(struct xp_timeline_waits *waits, struct xp_perfetto *perfetto, uint64_t start_ns);
void xp_timeline_waits_free(struct xp_timeline_waits *waits);

#endif
