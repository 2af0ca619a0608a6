// SPDX-License-Identifier: BSD-2-Clause
#include "explain/common_causes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "base/util.h"
#include "model/stack_shapes.h"
#include "model/tree.h"

#define PLACE_FRAMES_MAX 5
#define PLACE_NAME_BYTES 80
#define WORTH_SHARE 0.05 /* of the time of a slow call */
#define WORTH_CALLS 0.5	 /* more of the slow calls than of the typical ones began on that CPU, */
#define CALLS_MIN 3	 /* of so many */

const char *xp_common_kind_name(enum xp_common_kind kind)
{
	static const char *const names[XP_COMMON_KINDS] = {
		[XP_COMMON_CALLEE] = "callee",	     [XP_COMMON_SELF] = "self",	      [XP_COMMON_ON_CPU] = "on_cpu",
		[XP_COMMON_RUNNABLE] = "runnable",   [XP_COMMON_BLOCKED] = "blocked", [XP_COMMON_WAKER] = "waker",
		[XP_COMMON_NEIGHBOUR] = "neighbour", [XP_COMMON_CPU] = "cpu",	      [XP_COMMON_THREADS] = "threads",
	};

	return names[kind];
}

/* Formats where a call waited: "a < b < c", from the innermost function up to the callee of `function`. Returns to. */
static const char *place_text(char to[XP_PLACE_BYTES], const struct xp_model *model, uint32_t stack,
			      const char *function)
{
	const char *names[PLACE_FRAMES_MAX];
	size_t count = XP_MIN(xp_stack_frames(model, stack, names, PLACE_FRAMES_MAX), (size_t)PLACE_FRAMES_MAX);
	size_t used = 0;

	to[0] = 0;
	for (size_t i = 0; i < count && (!i || !function || strcmp(names[i], function) != 0); i++)
		used += (size_t)snprintf(to + used, XP_PLACE_BYTES - used, "%s%.*s", i ? " < " : "",
					 (int)xp_text_fit(names[i], PLACE_NAME_BYTES), names[i]);
	return to;
}

const char *xp_story_thread(char to[XP_THREAD_TEXT_BYTES], const struct xp_model *model, uint32_t thread)
{
	return xp_model_label(to, XP_THREAD_TEXT_BYTES, model->threads[thread].name, model->threads[thread].tid);
}

/* A call whose parts are being added. */
struct adding {
	struct xp_commons *commons;
	struct xp_model *model;
	int is_slow;
};

static int add(const struct adding *adding, enum xp_common_kind kind, const char *text, uint64_t ns)
{
	struct xp_commons *commons = adding->commons;
	const char *kept = xp_model_text(adding->model, text);
	uint32_t *index =
	    kept ? xp_u64_map_add(&commons->by_key, (uint64_t)(uintptr_t)kept * XP_COMMON_KINDS + kind, UINT32_MAX)
		 : NULL;
	struct xp_common *common;

	if (!index)
		return -ENOMEM;
	if (*index == UINT32_MAX) {
		if (XP_ARRAY_RESERVE(commons->list, commons->room, commons->count + 1))
			return -ENOMEM;
		*index = (uint32_t)commons->count;
		commons->list[commons->count++] = (struct xp_common){ .kind = kind, .text = kept };
	}
	common = &commons->list[*index];
	common->ns[adding->is_slow] += ns;
	if (common->last_call != commons->all_calls) {
		common->last_call = commons->all_calls;
		common->calls[adding->is_slow]++;
	}
	return 0;
}

static int add_callees(const struct adding *adding, const struct xp_call_function *functions,
		       const struct xp_slow_call *call)
{
	uint64_t in_callees = call->further.ns, ns = xp_slow_call_ns(call);
	int err = 0;

	for (size_t i = 0; !err && i < call->callee_count; i++) {
		const struct xp_call_callee *callee = &call->callees[i];

		in_callees += callee->ns;
		err = add(adding, XP_COMMON_CALLEE, functions[callee->function].name, callee->ns);
	}
	return err || !call->callee_count ? err : add(adding, XP_COMMON_SELF, "", ns - XP_MIN(ns, in_callees));
}

static int add_wait(const struct adding *adding, const struct xp_story_wait *wait, const char *function)
{
	char place[XP_PLACE_BYTES], text[XP_PLACE_BYTES + 32], waker[XP_THREAD_TEXT_BYTES];
	int err;

	if (!wait->blocked_ns)
		return 0;
	snprintf(text, sizeof(text), "%s in %s", xp_wait_state_text(wait->longest->state),
		 place_text(place, adding->model, wait->longest->stack, function));
	err = add(adding, XP_COMMON_BLOCKED, text, wait->blocked_ns);
	if (err || !wait->longest->waker_tid || wait->longest->flags & (XP_WAIT_HARDIRQ | XP_WAIT_SOFTIRQ))
		return err;
	xp_model_label(waker, sizeof(waker), wait->longest->waker_name, wait->longest->waker_tid);
	return add(adding, XP_COMMON_WAKER, waker, wait->blocked_ns);
}

static int add_neighbour(const struct adding *adding, const struct xp_story *story)
{
	char thread[XP_THREAD_TEXT_BYTES], text[XP_THREAD_TEXT_BYTES + 32];

	if (story->neighbour == XP_MODEL_NONE)
		return 0;
	snprintf(text, sizeof(text), "%s on CPU %" PRIu32, xp_story_thread(thread, adding->model, story->neighbour),
		 story->starved_cpu);
	return add(adding, XP_COMMON_NEIGHBOUR, text, story->neighbour_ns);
}

int xp_commons_add(struct xp_commons *commons, struct xp_thread_times *times, const struct xp_call_function *functions,
		   const struct xp_slow_call *call, const struct xp_story *story, int is_slow)
{
	const struct adding adding = { commons, &times->model, is_slow };
	char cpu[32];
	int err;

	commons->calls[is_slow]++;
	commons->ns[is_slow] += xp_slow_call_ns(call);
	commons->all_calls++;
	snprintf(cpu, sizeof(cpu), "CPU %u", call->cpu);
	err = add(&adding, XP_COMMON_CPU, cpu, 0) ?: add_callees(&adding, functions, call);
	if (err || story->thread == XP_MODEL_NONE || !times->model.wait_count)
		return err;
	err = add(&adding, XP_COMMON_ON_CPU, "", story->on_cpu_ns);
	if (!err && story->runnable_ns)
		err = add(&adding, XP_COMMON_RUNNABLE, "", story->runnable_ns);
	for (size_t i = 0; !err && i < story->wait_count; i++)
		err = add_wait(&adding, &story->waits[i], functions[call->function].name);
	return err ?: add_neighbour(&adding, story);
}

int xp_commons_add_thread(struct xp_commons *commons, struct xp_thread_times *times, uint32_t thread,
			  struct xp_time_range worked, int is_slow)
{
	const struct adding adding = { commons, &times->model, is_slow };

	return add(&adding, XP_COMMON_THREADS, times->model.threads[thread].name, worked.end_ns - worked.begin_ns);
}

static double share(const struct xp_commons *commons, const struct xp_common *common, int is_slow)
{
	return commons->calls[is_slow] ? (double)common->calls[is_slow] / (double)commons->calls[is_slow] : 0;
}

static double difference(const struct xp_commons *commons, const struct xp_common *common)
{
	return xp_common_mean_ns(commons, common, 1) - xp_common_mean_ns(commons, common, 0);
}

static bool is_worth_telling(const struct xp_commons *commons, const struct xp_common *common)
{
	if (common->kind == XP_COMMON_CPU)
		return commons->calls[0] >= CALLS_MIN && commons->calls[1] >= CALLS_MIN &&
		       share(commons, common, 1) - share(commons, common, 0) >= WORTH_CALLS;
	return difference(commons, common) * (double)commons->calls[1] >= WORTH_SHARE * (double)commons->ns[1];
}

static int by_difference(const void *a, const void *b, void *arg)
{
	double left = difference(arg, a), right = difference(arg, b);

	return (left < right) - (left > right);
}

void xp_commons_finish(struct xp_commons *commons)
{
	XP_ARRAY_KEEP(commons->list, commons->count, i, is_worth_telling(commons, &commons->list[i]));
	if (commons->count)
		qsort_r(commons->list, commons->count, sizeof(*commons->list), by_difference, commons);
	commons->count = XP_MIN(commons->count, (size_t)XP_COMMON_MAX);
}

void xp_commons_free(struct xp_commons *commons)
{
	free(commons->list);
	xp_u64_map_free(&commons->by_key);
}
