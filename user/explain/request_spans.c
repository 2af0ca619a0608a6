// SPDX-License-Identifier: BSD-2-Clause
#include "explain/request_spans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"
#include "model/log_walk.h"
#include "model/stack_shapes.h"

#define FRAMES_COMPARED 8
#define OTHER_WAITS_MAX 256 /* waits in the work of one span; the span ends at the last of these */

/* ---- wake-ups ---- */

int xp_wakeups_init(struct xp_wakeups *wakeups, const struct xp_thread_times *times)
{
	*wakeups = (struct xp_wakeups){ .waits = malloc((times->model.wait_count + 1) * sizeof(*wakeups->waits)) };
	return wakeups->waits ? 0 : -ENOMEM;
}

void xp_wakeups_add(struct xp_wakeups *wakeups, const struct xp_thread_times *times, size_t index)
{
	const struct xp_model_wait *wait = &times->model.waits[index];

	if (wait->waker_tid && wait->state != XP_WAIT_PREEMPTED &&
	    !(wait->flags & (XP_WAIT_HARDIRQ | XP_WAIT_SOFTIRQ | XP_WAIT_LAST)))
		wakeups->waits[wakeups->count++] = (uint32_t)index;
}

static int by_waker_and_time(const void *a, const void *b, void *arg)
{
	const struct xp_model_wait *waits = arg;
	const struct xp_model_wait *left = &waits[*(const uint32_t *)a], *right = &waits[*(const uint32_t *)b];

	return xp_compare(left->waker_tid, right->waker_tid)
		   ?: xp_compare(xp_model_wait_blocked_until(left), xp_model_wait_blocked_until(right));
}

void xp_wakeups_sort(struct xp_wakeups *wakeups, const struct xp_thread_times *times)
{
	qsort_r(wakeups->waits, wakeups->count, sizeof(*wakeups->waits), by_waker_and_time, times->model.waits);
}

/* ---- spans ---- */

struct finding {
	struct xp_request_spans *spans;
	const struct xp_wakeups *wakeups;
	const struct xp_thread_times *times;
	uint32_t thread; /* thread of the request */
	uint64_t end_ns;
};

/* Returns whether two stacks have the same functions, as far as known: often only the innermost are. */
static bool are_alike(const struct xp_model *model, const struct xp_model_wait *a, const struct xp_model_wait *b)
{
	const char *names[2][FRAMES_COMPARED];
	size_t count = XP_MIN(xp_stack_frames(model, a->stack, names[0], FRAMES_COMPARED),
			      xp_stack_frames(model, b->stack, names[1], FRAMES_COMPARED));

	count = XP_MIN(count, (size_t)FRAMES_COMPARED);
	/* Each text has only one address. */
	return !memcmp(names[0], names[1], count * sizeof(names[0][0]));
}

/* Returns when the thread waits again, as in a wait that has ended; at most end_ns. */
static uint64_t waits_again(const struct finding *finding, const struct xp_model_wait *wait)
{
	const struct xp_model *model = &finding->times->model;
	const struct xp_model_wait *next = wait + 1, *end = model->waits + model->wait_count;

	for (; next < end && next->thread == wait->thread && next->begin_ns < finding->end_ns; next++)
		if ((next->state != XP_WAIT_PREEMPTED && are_alike(model, next, wait)) || next - wait > OTHER_WAITS_MAX)
			return next->begin_ns;
	return finding->end_ns;
}

/* Returns whether the thread is already working for the request: another wake-up does not start new work. */
static bool is_at_work(const struct xp_request_spans *spans, uint32_t thread, uint64_t ns)
{
	for (size_t i = 0; i < spans->count; i++)
		if (spans->list[i].thread == thread && ns >= spans->list[i].range.begin_ns &&
		    ns < spans->list[i].range.end_ns)
			return true;
	return false;
}

/* Adds the work of the threads that a thread wakes in this time. */
static void add_woken(struct finding *finding, uint32_t thread, struct xp_time_range range)
{
	const struct xp_model *model = &finding->times->model;
	const struct xp_wakeups *wakeups = finding->wakeups;
	uint32_t tid = (uint32_t)model->threads[thread].tid;
	size_t first =
	    XP_FIND_FIRST(wakeups->count, i,
			  model->waits[wakeups->waits[i]].waker_tid != tid
			      ? model->waits[wakeups->waits[i]].waker_tid < tid
			      : xp_model_wait_blocked_until(&model->waits[wakeups->waits[i]]) < range.begin_ns);

	for (size_t i = first; i < wakeups->count && finding->spans->count < XP_REQUEST_SPANS_MAX; i++) {
		const struct xp_model_wait *wait = &model->waits[wakeups->waits[i]];
		uint64_t woken_ns = xp_model_wait_blocked_until(wait);

		if (wait->waker_tid != tid || woken_ns >= range.end_ns)
			break;
		if (wait->thread != finding->thread && !is_at_work(finding->spans, wait->thread, woken_ns))
			finding->spans->list[finding->spans->count++] = (struct xp_request_span){
				.thread = wait->thread,
				.waker = thread,
				.range = { woken_ns, waits_again(finding, wait) },
			};
	}
}

void xp_request_spans_find(struct xp_request_spans *spans, const struct xp_wakeups *wakeups,
			   const struct xp_thread_times *times, uint32_t thread, struct xp_time_range range)
{
	struct finding finding = { spans, wakeups, times, thread, range.end_ns };

	spans->count = 0;
	if (thread == XP_MODEL_NONE)
		return;
	add_woken(&finding, thread, range);
	for (size_t i = 0; i < spans->count; i++)
		add_woken(&finding, spans->list[i].thread, spans->list[i].range);
}

/* ---- calls in spans ---- */

struct reading {
	const struct xp_thread_times *times;
	const struct xp_slow_calls *calls;
	struct xp_request_span **spans; /* sorted by thread and begin */
	uint64_t *reach_ns;		/* the latest end of the thread's spans up to each one */
	size_t count;
	struct xp_log_visitor visitor;
};

static int by_thread_and_begin(const void *a, const void *b)
{
	const struct xp_request_span *left = *(struct xp_request_span *const *)a;
	const struct xp_request_span *right = *(struct xp_request_span *const *)b;

	return xp_compare(left->thread, right->thread) ?: xp_compare(left->range.begin_ns, right->range.begin_ns);
}

static bool has_thread(const struct reading *reading, uint32_t thread)
{
	size_t first = XP_FIND_FIRST(reading->count, i, reading->spans[i]->thread < thread);

	return first < reading->count && reading->spans[first]->thread == thread;
}

static int add_thread(void *arg, struct xp_walked_thread *thread)
{
	const struct reading *reading = arg;

	thread->number = xp_thread_times_find(reading->times, thread->pid, thread->tid);
	thread->is_left_out = thread->number == XP_MODEL_NONE || !has_thread(reading, thread->number);
	return 0;
}

static void note_call(struct xp_request_span *span, uint32_t function, struct xp_time_range call)
{
	uint64_t ns = XP_MIN(call.end_ns, span->range.end_ns) - call.begin_ns;
	struct xp_call_callee *callee = span->callees, *end = callee + span->callee_count;

	while (callee < end && callee->function != function)
		callee++;
	if (callee == end) {
		if (span->callee_count == XP_SPAN_CALLEES_MAX)
			return;
		span->callee_count++;
		*callee = (struct xp_call_callee){ .function = function };
	}
	callee->calls++;
	callee->ns += ns;
}

/* A call that begins in a span belongs to the span, unless its caller does. */
static int leave(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct reading *reading = arg;
	const struct xp_walked_call *call = &thread->calls[thread->depth - 1];
	const struct xp_time_range range = { xp_log_walk_ns(&reading->visitor, 0, call->tsc),
					     xp_log_walk_ns(&reading->visitor, 0, record->tsc) };
	uint64_t caller_ns = thread->depth > 1 ? xp_log_walk_ns(&reading->visitor, 0, call[-1].tsc) : 0;
	size_t next = XP_FIND_FIRST(reading->count, i,
				    reading->spans[i]->thread != thread->number
					? reading->spans[i]->thread < thread->number
					: reading->spans[i]->range.begin_ns <= range.begin_ns);

	/* The file may have changed since it was read for the first time. */
	if (call->function >= reading->calls->function_count)
		return 0;
	for (size_t n = 0; next-- && n < XP_REQUEST_SPANS_MAX; n++) {
		if (reading->spans[next]->thread != thread->number || reading->reach_ns[next] <= range.begin_ns)
			break;
		if (reading->spans[next]->range.end_ns > range.begin_ns &&
		    (thread->depth == 1 || caller_ns < reading->spans[next]->range.begin_ns))
			note_call(reading->spans[next], call->function, range);
	}
	return 0;
}

int xp_request_spans_read_calls(struct xp_request_span **spans, size_t count, const struct xp_thread_times *times,
				struct xp_slow_calls *calls, const struct xp_model_source *source)
{
	struct reading reading = {
		.times = times,
		.calls = calls,
		.spans = spans,
		.reach_ns = malloc((count + 1) * sizeof(*reading.reach_ns)),
		.count = count,
		.visitor = {
			.add_thread = add_thread,
			.leave = leave,
			.arg = &reading,
			.functions = &calls->logged,
		},
	};
	int err = reading.reach_ns ? 0 : -ENOMEM;

	if (!count || err) {
		free(reading.reach_ns);
		return err;
	}
	qsort(spans, count, sizeof(*spans), by_thread_and_begin);
	for (size_t i = 0; i < count; i++)
		reading.reach_ns[i] = i && spans[i]->thread == spans[i - 1]->thread
					  ? XP_MAX(reading.reach_ns[i - 1], spans[i]->range.end_ns)
					  : spans[i]->range.end_ns;
	err = xp_log_walk_parts(&reading.visitor, source, NULL);
	free(reading.reach_ns);
	return err;
}

static int by_ns(const void *a, const void *b)
{
	return xp_compare(((const struct xp_call_callee *)b)->ns, ((const struct xp_call_callee *)a)->ns);
}

static void set_callees(struct xp_slow_call *call, struct xp_request_span *span)
{
	qsort(span->callees, span->callee_count, sizeof(span->callees[0]), by_ns);
	memcpy(call->callees, span->callees, sizeof(span->callees));
	call->callee_count = span->callee_count;
}

int xp_request_spans_read_callees(struct xp_slow_calls *calls, size_t functions, const struct xp_thread_times *times,
				  const struct xp_model_source *source)
{
	size_t slow = calls->slow.count, all = slow + calls->usual_count;
	struct xp_request_span *spans = calloc(all + 1, sizeof(*spans)),
			       **order = calloc(all + 1, sizeof(struct xp_request_span *));
	int err = spans && order ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < all; i++) {
		const struct xp_slow_call *call = i < slow ? &calls->slow.list[i] : &calls->usual[i - slow];

		spans[i].thread =
		    call->function < functions ? xp_thread_times_find(times, call->pid, call->tid) : XP_MODEL_NONE;
		spans[i].range = (struct xp_time_range){ call->begin_ns, call->end_ns };
		order[i] = &spans[i];
	}
	err = err ?: xp_request_spans_read_calls(order, all, times, calls, source);
	for (size_t i = 0; !err && i < all; i++) {
		struct xp_slow_call *call = i < slow ? &calls->slow.list[i] : &calls->usual[i - slow];

		if (call->function < functions)
			set_callees(call, &spans[i]);
	}
	free(spans);
	free(order);
	return err;
}
