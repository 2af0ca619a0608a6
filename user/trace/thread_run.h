/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hot path of a thread's calls: a run of plain calls, which need nothing but their records, with the thread's state
 * in registers. The loops that go over calls of BPF and of call rings include it; whatever is not plain is for
 * xp_thread_put().
 */
#ifndef XPROF_TRACE_THREAD_RUN_H
#define XPROF_TRACE_THREAD_RUN_H

#include "format/fdr_put.h"
#include "trace/functions.h"
#include "trace/thread.h"

static inline uint32_t xp_call_fn(struct xp_call call)
{
	return call.word & XP_FN_MAX;
}

static inline enum xp_event_kind xp_call_kind(struct xp_call call)
{
	return (enum xp_event_kind)(call.word >> XP_FN_BITS);
}

_Static_assert((int)XP_EVENT_ENTRY == XP_FDR_ENTER && (int)XP_EVENT_EXIT == XP_FDR_EXIT &&
		   (int)XP_EVENT_TAIL_EXIT == XP_FDR_TAIL_EXIT,
	       "xp_call_fdr_kind()");

static inline enum xp_fdr_function_kind xp_call_fdr_kind(struct xp_call call)
{
	return (enum xp_fdr_function_kind)xp_call_kind(call);
}

/* The part of a thread's state that plain calls change. */
struct xp_thread_run {
	uint8_t *chunk;
	size_t len;
	size_t cap;
	struct xp_open_call *frames;
	uint32_t depth;
	uint32_t room;
	uint64_t last_tsc;
	uint64_t base_tsc;
	const uint8_t *watched; /* by function id; NULL: none is */
};

/* Begins a run of calls on one CPU. Nothing else may change the thread before xp_thread_run_end(). */
static inline struct xp_thread_run xp_thread_run_begin(const struct xp_thread *thread, uint16_t cpu)
{
	const struct xp_fdr_enc *enc = &thread->enc;
	bool none = cpu != enc->cpu || thread->marks || thread->too_deep; /* no call is plain */

	return (struct xp_thread_run){
		.chunk = enc->buf,
		.len = enc->len,
		.cap = none ? enc->len : enc->cap,
		.frames = thread->frames,
		.depth = thread->depth,
		.room = thread->room,
		.last_tsc = thread->last_tsc,
		.base_tsc = enc->base_tsc,
		.watched = thread->options->watched ? thread->options->watched->by_id : NULL,
	};
}

static inline void xp_thread_run_end(struct xp_thread *thread, const struct xp_thread_run *run)
{
	uint64_t calls = (run->len - thread->enc.len) / XP_FDR_FUNCTION_BYTES;

	thread->depth = run->depth;
	thread->last_tsc = run->last_tsc;
	thread->counts.seen += calls;
	thread->counts.written += calls;
	thread->chunk_written += calls;
	thread->enc.base_tsc = run->base_tsc;
	thread->enc.len = run->len;
}

/*
 * Puts a call that needs nothing but its record: it is deeper than all open calls, or the exit of the innermost one,
 * and nobody watches it. Returns false, and changes nothing, if this is another call. 4 ns a call in a long run.
 */
static inline __attribute__((always_inline)) bool xp_thread_run_put(struct xp_thread_run *run, struct xp_call call)
{
	uint32_t fn_id = xp_call_fn(call), depth = run->depth;

	if (run->watched && run->watched[fn_id])
		return false;
	if (run->cap - run->len < XP_FDR_FUNCTION_BYTES || call.tsc < run->last_tsc ||
	    call.tsc - run->base_tsc > UINT32_MAX)
		return false;
	if (xp_call_kind(call) == XP_EVENT_ENTRY) {
		if (depth == run->room || (depth && (int32_t)(call.slot - run->frames[depth - 1].slot) >= 0))
			return false;
		run->frames[depth] = (struct xp_open_call){ fn_id, call.slot };
		run->depth = depth + 1;
	} else {
		if (!depth || run->frames[depth - 1].fn_id != fn_id || run->frames[depth - 1].slot != call.slot)
			return false;
		/* Calls below it whose exits will not be seen end with it. */
		if (depth > 1 && run->frames[depth - 2].fn_id & XP_FRAME_FORGOTTEN)
			return false;
		run->depth = depth - 1;
	}
	xp_fdr_put_function(run->chunk + run->len, call.tsc - run->base_tsc, fn_id, xp_call_fdr_kind(call));
	run->len += XP_FDR_FUNCTION_BYTES;
	run->last_tsc = run->base_tsc = call.tsc;
	return true;
}

#endif
