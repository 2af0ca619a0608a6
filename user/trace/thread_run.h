/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hot path of a thread's calls: a run of plain calls, which only need a record, with the thread's state in
 * registers. Both the loop over BPF events and the loop over call rings use it. All other calls use
 * xp_thread_put_any().
 */
#ifndef XPROF_TRACE_THREAD_RUN_H
#define XPROF_TRACE_THREAD_RUN_H

#include "format/fdr_put.h"
#include "trace/functions.h"
#include "trace/thread.h"

_Static_assert((int)XP_EVENT_ENTRY == XP_FDR_ENTER && (int)XP_EVENT_EXIT == XP_FDR_EXIT &&
		   (int)XP_EVENT_TAIL_EXIT == XP_FDR_TAIL_EXIT,
	       "xp_call_fdr_kind()");

static inline enum xp_fdr_function_kind xp_call_fdr_kind(const struct xp_call *call)
{
	return (enum xp_fdr_function_kind)xp_call_kind(call);
}

/* Returns the slot of the outermost call of a thread or stack: of the open one, or of the last one. */
static inline uint32_t xp_stack_base(const struct xp_thread *stack)
{
	return stack->frames[0].slot;
}

/*
 * Returns whether a call at this slot may be the outermost call of a thread without open calls: it may be anywhere on
 * the stack, but if the thread has several stacks, also on another one.
 */
static inline bool xp_stack_may_begin(const struct xp_thread *thread, uint32_t slot)
{
	return !thread->depth && slot - xp_stack_base(thread) + XP_STACK_SLOTS <= 2 * XP_STACK_SLOTS;
}

/* The part of a thread's state that plain calls change. All zero: no plain calls are possible now. */
struct xp_thread_run {
	uint8_t *to; /* next byte in the chunk */
	uint8_t *end;
	struct xp_open_call *top; /* after the innermost open call */
	struct xp_open_call *bottom;
	struct xp_open_call *roof;
	uint32_t reach;		/* maximum number of slots between an outermost call and the last outermost call */
	uint64_t last_tsc;	/* also the base of the next record */
	const uint8_t *watched; /* by function ID; NULL: none */
};

/* Begins a run of calls on one CPU. Nothing else may change the thread before xp_thread_run_end(). */
static inline struct xp_thread_run xp_thread_run_begin(const struct xp_thread *thread, uint16_t cpu)
{
	const struct xp_fdr_enc *enc = &thread->enc;

	/* No call is plain. After a filtered record, the times differ. */
	if (!enc->buf || !thread->frames || cpu != enc->cpu || thread->marks || thread->too_deep ||
	    enc->base_tsc != thread->last_tsc)
		return (struct xp_thread_run){ 0 };
	return (struct xp_thread_run){
		.to = enc->buf + enc->len,
		.end = enc->buf + enc->cap,
		.top = thread->frames + thread->depth,
		.bottom = thread->frames,
		.roof = thread->frames + thread->room,
		.reach = thread->first->stacks.count ? 0 : XP_STACK_SLOTS,
		.last_tsc = thread->last_tsc,
		.watched = thread->options->watched ? thread->options->watched->by_id : NULL,
	};
}

static inline void xp_thread_run_end(struct xp_thread *thread, const struct xp_thread_run *run)
{
	size_t len = run->to ? (size_t)(run->to - thread->enc.buf) : thread->enc.len;
	uint64_t calls = (len - thread->enc.len) / XP_FDR_FUNCTION_BYTES;

	if (!calls)
		return;
	thread->depth = (uint32_t)(run->top - run->bottom);
	thread->last_tsc = run->last_tsc;
	thread->counts.seen += calls;
	thread->counts.written += calls;
	thread->chunk_written += calls;
	thread->enc.base_tsc = run->last_tsc;
	thread->enc.len = len;
}

/*
 * Puts a plain call: slightly deeper than all open calls, or the exit of the innermost call, and not watched. ticks:
 * since the last call, at most UINT32_MAX. word, slot and tsc: as in struct xp_call. The caller sets run->last_tsc.
 * Returns false, and changes nothing, for any other call.
 */
static inline __attribute__((always_inline)) bool xp_thread_run_put(struct xp_thread_run *run, uint64_t ticks,
								    uint32_t word, uint32_t slot, uint64_t tsc)
{
	uint32_t fn_id = word & XP_FN_MAX, kind = word >> XP_FN_BITS;
	struct xp_open_call *top = run->top;

	if (run->end - run->to < XP_FDR_FUNCTION_BYTES || (run->watched && run->watched[fn_id]))
		return false;
	if (kind == XP_EVENT_ENTRY) {
		if (top == run->roof || (top != run->bottom ? top[-1].slot - 1 - slot >= XP_STACK_NEAR
							    : slot - top->slot + run->reach > 2 * run->reach))
			return false;
		*top = (struct xp_open_call){ fn_id, slot, tsc };
		run->top = top + 1;
	} else {
		if (top == run->bottom || top[-1].fn_id != fn_id || top[-1].slot != slot)
			return false;
		/* Callers that will have no exit end with it. */
		if (top - 1 != run->bottom && top[-2].fn_id & XP_FRAME_FORGOTTEN)
			return false;
		run->top = top - 1;
	}
	xp_fdr_put_function(run->to, ticks, fn_id, (enum xp_fdr_function_kind)kind);
	run->to += XP_FDR_FUNCTION_BYTES;
	return true;
}

/*
 * Handles a call of this thread; its word has the function's ID in the log. Returns 0, the sink's error or -ENOMEM. The
 * call is counted in any case.
 */
static inline __attribute__((always_inline)) int xp_thread_put(struct xp_thread *thread, const struct xp_call *call)
{
	struct xp_thread_run run;
	uint64_t ticks;

	/* xp_thread_run_begin() checks marks, too, but 2 ns later. */
	if (thread->now != thread || thread->marks || call->event)
		return xp_thread_put_any(thread, *call);
	run = xp_thread_run_begin(thread, call->cpu);
	ticks = call->tsc - run.last_tsc;
	if (ticks > UINT32_MAX || !xp_thread_run_put(&run, ticks, call->word, call->slot, call->tsc))
		return xp_thread_put_any(thread, *call);
	run.last_tsc = call->tsc;
	xp_thread_run_end(thread, &run);
	return 0;
}

#endif
