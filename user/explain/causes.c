/* SPDX-License-Identifier: BSD-2-Clause */
#include "explain/causes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "base/util.h"
#include "model/read_waits.h"

#define PAGE "a page"	 /* object of waits for page faults */
#define FUTEX "a futex"	 /* a lock, a condition variable or another futex: no name in the stack shows which */
#define SAMPLED_SHARE 20 /* omit functions with less than 1/20 of the time of all samples */

const char *xp_cause_kind_name(enum xp_cause_kind kind)
{
	static const char *const names[XP_CAUSE_KINDS] = {
		[XP_CAUSE_LOCK] = "lock",     [XP_CAUSE_DISK] = "disk", [XP_CAUSE_WAIT] = "wait",
		[XP_CAUSE_NO_CPU] = "no CPU", [XP_CAUSE_CPU] = "CPU",	[XP_CAUSE_CALLEE] = "callee",
	};

	return names[kind];
}

/* ---- places ---- */

static bool is_of_system(const struct xp_model_object *object)
{
	static const char *const names[] = { "libc.so", "libc-",     "libpthread", "ld-linux", "ld-2",
					     "ld-musl", "libstdc++", "libm.so",	   "vdso",     "[vdso]" };

	for (size_t i = 0; i < XP_ARRAY_SIZE(names); i++)
		if (!strncmp(object->name, names[i], strlen(names[i])))
			return true;
	return false;
}

static const char *shown_at(const struct xp_model *model, const struct xp_model_location *location, uint32_t frame)
{
	return model->functions[model->frames[location->first_frame + frame].function].shown;
}

/* The C library's own names: "__GI___libc_read", "___pthread_mutex_lock". */
static const char *plain_name(const char *name)
{
	static const char *const prefixes[] = { "__GI_", "_", "libc_" };

	for (size_t i = 0; i < XP_ARRAY_SIZE(prefixes); i++)
		while (!strncmp(name, prefixes[i], strlen(prefixes[i])) && name[strlen(prefixes[i])])
			name += strlen(prefixes[i]);
	return name;
}

const char *xp_cause_place(const struct xp_causes *causes, const struct xp_model *model, uint32_t stack,
			   const char **primitive)
{
	const char *own = NULL, *called = NULL;

	for (; stack; stack = model->stacks[stack].callers) {
		const struct xp_model_location *location = &model->locations[model->stacks[stack].location];
		const struct xp_model_object *object = &model->objects[location->object];

		if (object->kind == XP_CODE_KERNEL || !location->frame_count)
			continue;
		if (is_of_system(object)) {
			if (!own)
				called = shown_at(model, location, location->frame_count - 1);
			continue;
		}
		own = own ? own : shown_at(model, location, 0);
		for (uint32_t i = 0; i < location->frame_count; i++) {
			const char *name = shown_at(model, location, i);

			/* Each text has only one address. */
			if (xp_u64_map_find(&causes->recorded, (uintptr_t)name)) {
				*primitive = called ? plain_name(called) : NULL;
				return name;
			}
		}
	}
	*primitive = called ? plain_name(called) : NULL;
	return own;
}

bool xp_cause_is_named(const char *name)
{
	return name && *name && !strstr(name, "+0x");
}

/* Returns whether a wait for a disk is a page fault: it is if there is no system call. */
static bool is_page_fault(const struct xp_model_wait *wait)
{
	return wait->state == XP_WAIT_DISK && wait->syscall < 0;
}

static bool is_in_futex(const struct xp_model_wait *wait)
{
	return wait->state == XP_WAIT_LOCK || wait->state == XP_WAIT_FUTEX;
}

/* Returns what a wait is for, if the name of the library's function does not show it. */
static const char *what_for(const struct xp_model_wait *wait, const char *primitive)
{
	if (is_page_fault(wait))
		return PAGE;
	if (wait->state == XP_WAIT_FUTEX && (!xp_cause_is_named(primitive) || strstr(primitive, "futex")))
		return FUTEX;
	return primitive;
}

/* Formats "starves in compute (busy/9 runs)". */
static void put_starves(char to[XP_CAUSE_TEXT_BYTES], const struct xp_model *model, const char *place,
			uint32_t neighbour)
{
	int used = snprintf(to, XP_CAUSE_TEXT_BYTES, "starves in %.*s", XP_CAUSE_NAME_BYTES, place);

	if (neighbour != XP_MODEL_NONE)
		snprintf(to + used, XP_CAUSE_TEXT_BYTES - (size_t)used, " (%s/%" PRIu64 " runs)",
			 model->threads[neighbour].name, model->threads[neighbour].tid);
}

/* Formats "sleeps in refresh_cache", "waits for fsync in write_journal", "runs in compute". */
static void put_does(char to[XP_CAUSE_TEXT_BYTES], const struct xp_causes *causes, const struct xp_model *model,
		     const struct xp_story_waker *waker)
{
	const char *primitive,
	    *place = xp_cause_place(causes, model, waker->wait ? waker->wait->stack : waker->stack, &primitive);
	bool sleeps = waker->wait && waker->wait->state == XP_WAIT_SLEEP && primitive && strstr(primitive, "sleep");

	to[0] = 0;
	if (!place) {
		place = primitive;
		primitive = NULL;
	}
	if (!place)
		return;
	if (waker->wait)
		primitive = what_for(waker->wait, primitive);
	if (waker->wait && waker->wait->state == XP_WAIT_PREEMPTED)
		put_starves(to, model, place, waker->neighbour);
	else if (!waker->wait)
		snprintf(to, XP_CAUSE_TEXT_BYTES, "runs in %.*s", XP_CAUSE_NAME_BYTES, place);
	else if (sleeps || !xp_cause_is_named(primitive))
		snprintf(to, XP_CAUSE_TEXT_BYTES, "%s in %.*s",
			 waker->wait->state == XP_WAIT_SLEEP ? "sleeps" : "waits", XP_CAUSE_NAME_BYTES, place);
	else
		snprintf(to, XP_CAUSE_TEXT_BYTES, "waits for %.*s in %.*s", XP_CAUSE_NAME_BYTES, primitive,
			 XP_CAUSE_NAME_BYTES, place);
}

/* ---- the cause of a call ---- */

struct adding {
	const struct xp_causes *causes;
	struct xp_thread_times *times;
	const struct xp_slow_calls *calls;
	struct xp_cause cause;
	char does[XP_CAUSE_TEXT_BYTES];
};

/* Finds the thread that ended the wait, or the last thread of the chain of wakers. */
static void find_other(struct adding *adding, const struct xp_model_wait *wait)
{
	const struct xp_model *model = &adding->times->model;
	struct xp_story_waker waker;

	if (!wait->waker_tid || wait->flags & (XP_WAIT_HARDIRQ | XP_WAIT_SOFTIRQ))
		return;
	adding->cause.other = wait->waker_name;
	adding->cause.other_tid = wait->waker_tid;
	for (int i = 0; i < XP_STORY_WAKERS_MAX && xp_story_look_at_waker(&waker, adding->times, wait); i++) {
		adding->cause.other = model->threads[waker.thread].name;
		adding->cause.other_tid = (uint32_t)model->threads[waker.thread].tid;
		put_does(adding->does, adding->causes, model, &waker);
		if (!waker.wait || !is_in_futex(waker.wait) || !waker.wait->waker_tid)
			return;
		wait = waker.wait;
	}
}

/* NULL: nothing. */
static const char *main_callee(const struct adding *adding, const struct xp_slow_call *call)
{
	const struct xp_call_function *callee = xp_slow_call_main_callee(adding->calls, call);

	return callee ? callee->name : NULL;
}

/*
 * Sets the place of a wait. If the stack has no function of the program (only its leaf is known: waits of 10 ms and
 * more are recorded even if their stack was not copied), uses the callee of the call. call NULL: not in a call.
 */
static void blame_wait(struct adding *adding, const struct xp_slow_call *call, const struct xp_model_wait *wait)
{
	struct xp_cause *cause = &adding->cause;

	cause->kind = wait->state == XP_WAIT_LOCK   ? XP_CAUSE_LOCK
		      : wait->state == XP_WAIT_DISK ? XP_CAUSE_DISK
						    : XP_CAUSE_WAIT;
	cause->place = xp_cause_place(adding->causes, &adding->times->model, wait->stack, &cause->primitive);
	if (!cause->place && call) {
		cause->place = main_callee(adding, call);
		if (cause->place && wait->state == XP_WAIT_LOCK)
			cause->primitive = NULL; /* a part of the lock, such as lll_lock_wait */
	}
	if (!cause->place) {
		cause->place = cause->primitive;
		cause->primitive = NULL;
	}
	cause->primitive = what_for(wait, cause->primitive);
	/* Without a call, there may be several waits with one stack, for different locks. */
	cause->lock = call ? xp_waits_variable(&adding->times->model, wait) : NULL;
	if (cause->kind != XP_CAUSE_DISK)
		find_other(adding, wait);
}

static void blame_neighbour(struct adding *adding, const struct xp_story *story)
{
	const struct xp_model *model = &adding->times->model;

	adding->cause.kind = XP_CAUSE_NO_CPU;
	adding->cause.cpu = story->starved_cpu;
	if (!xp_story_has_neighbour(story))
		return;
	adding->cause.other = model->threads[story->neighbour].name;
	adding->cause.other_tid = (uint32_t)model->threads[story->neighbour].tid;
}

static void blame_callee(struct adding *adding, const struct xp_slow_call *call, enum xp_cause_kind kind)
{
	adding->cause.kind = kind;
	adding->cause.place = main_callee(adding, call) ?: adding->calls->functions[call->function].name;
}

static void find_cause(struct adding *adding, const struct xp_slow_call *call, const struct xp_story *story)
{
	switch (story->cause) {
	case XP_STORY_BLOCKED:
		/* The longest wait may be one for a CPU. */
		for (size_t i = 0; i < story->wait_count; i++)
			if (story->waits[i].blocked_ns) {
				blame_wait(adding, call, story->waits[i].longest);
				return;
			}
		return;
	case XP_STORY_RUNNABLE:
		blame_neighbour(adding, story);
		return;
	case XP_STORY_ON_CPU:
		blame_callee(adding, call, XP_CAUSE_CPU);
		return;
	case XP_STORY_UNKNOWN:
		blame_callee(adding, call, XP_CAUSE_CALLEE);
	}
}

/* ---- causes ---- */

static int keep_texts(struct adding *adding)
{
	/* The first texts identify a cause. A lock is the same even if different library functions acquire it. */
	const char **const texts[] = { &adding->cause.place, &adding->cause.other,     &adding->cause.waiter,
				       &adding->cause.lock,  &adding->cause.primitive, &adding->cause.does };
	size_t identifying = adding->cause.kind == XP_CAUSE_LOCK ? 4 : 5;
	uint64_t key = (uint64_t)adding->cause.kind << 32 | adding->cause.function;

	adding->cause.does = adding->does;
	for (size_t i = 0; i < XP_ARRAY_SIZE(texts); i++) {
		/* Each text has one address. */
		*texts[i] = xp_model_text(&adding->times->model, *texts[i] ? *texts[i] : "");
		if (!*texts[i])
			return -ENOMEM;
		if (i < identifying)
			key = xp_hash_mix(key, (uintptr_t)*texts[i]);
	}
	adding->cause.key = key;
	return 0;
}

static void count_thread(struct xp_cause *cause, const struct adding *adding)
{
	if (!*cause->does)
		cause->does = adding->cause.does;
	if (!*cause->primitive)
		cause->primitive = adding->cause.primitive;
	if (cause->other_tid != adding->cause.other_tid)
		cause->other_tid = 0;
	if (cause->cpu != adding->cause.cpu)
		cause->cpu = XP_MODEL_CPU_UNKNOWN;
}

static void count(struct xp_cause *cause, const struct adding *adding, const struct xp_slow_call *call)
{
	uint64_t median_ns = adding->calls->functions[call->function].median_ns, ns = xp_slow_call_ns(call);

	count_thread(cause, adding);
	cause->calls++;
	cause->extra_ns += ns - XP_MIN(ns, median_ns);
	if (!cause->example || ns > xp_slow_call_ns(cause->example))
		cause->example = call;
}

int xp_causes_init(struct xp_causes *causes, struct xp_thread_times *times, const struct xp_slow_calls *calls)
{
	for (size_t i = 0; i < calls->function_count; i++) {
		const char *name = xp_model_text(&times->model, calls->functions[i].name);

		if (!name || !xp_u64_map_add(&causes->recorded, (uintptr_t)name, 0))
			return -ENOMEM;
	}
	return 0;
}

/* Returns NULL if out of memory. */
static struct xp_cause *find(struct xp_causes *causes, struct adding *adding)
{
	uint32_t *index;

	if (keep_texts(adding))
		return NULL;
	index = xp_u64_map_add(&causes->by_key, adding->cause.key, (uint32_t)causes->count);
	if (!index || XP_ARRAY_RESERVE(causes->list, causes->room, causes->count + 1))
		return NULL;
	if (*index == causes->count)
		causes->list[causes->count++] = adding->cause;
	return &causes->list[*index];
}

int xp_causes_add(struct xp_causes *causes, struct xp_thread_times *times, const struct xp_slow_calls *calls,
		  struct xp_slow_call *call, const struct xp_story *story)
{
	struct adding adding = {
		.causes = causes,
		.times = times,
		.calls = calls,
		.cause = { .function = call->function },
	};
	struct xp_cause *cause;

	find_cause(&adding, call, story);
	cause = find(causes, &adding);
	if (!cause)
		return -ENOMEM;
	call->cause = cause->key;
	count(cause, &adding, call);
	return 0;
}

int xp_causes_add_waits(struct xp_causes *causes, struct xp_thread_times *times, const struct xp_wait_row *row)
{
	const struct xp_model_wait *wait = row->longest;
	struct adding adding = {
		.causes = causes,
		.times = times,
		.cause = { .waiter = times->model.threads[wait->thread].name },
	};
	struct xp_cause *cause;
	struct xp_story story;

	if (row->runnable_ns * 2 > row->total_ns) {
		xp_story_make(&story, times, wait->thread, (struct xp_time_range){ wait->begin_ns, wait->end_ns });
		blame_neighbour(&adding, &story);
	} else {
		blame_wait(&adding, NULL, wait);
	}
	cause = find(causes, &adding);
	if (!cause)
		return -ENOMEM;
	count_thread(cause, &adding);
	cause->calls += (uint64_t)(row->count + 0.5);
	xp_add_capped(&cause->extra_ns, row->total_ns);
	return 0;
}

int xp_causes_add_sample(struct xp_causes *causes, struct xp_thread_times *times, const struct xp_model_sample *sample)
{
	struct adding adding = {
		.causes = causes,
		.times = times,
		.cause = { .kind = XP_CAUSE_CPU, .waiter = times->model.threads[sample->thread].name },
	};
	const char *primitive;
	struct xp_cause *cause;

	adding.cause.place = xp_cause_place(causes, &times->model, sample->stack, &primitive) ?: primitive;
	cause = find(causes, &adding);
	if (!cause)
		return -ENOMEM;
	cause->calls += sample->values[0];
	xp_add_capped(&cause->extra_ns, sample->values[1]);
	return 0;
}

static int compare_threads(const void *a, const void *b)
{
	const struct xp_cause *x = a, *y = b;

	return xp_compare(x->kind == XP_CAUSE_WAIT, y->kind == XP_CAUSE_WAIT) ?: xp_compare(y->extra_ns, x->extra_ns);
}

void xp_causes_sort_threads(struct xp_causes *causes)
{
	uint64_t sampled_ns = 0;

	for (size_t i = 0; i < causes->count; i++)
		if (causes->list[i].kind == XP_CAUSE_CPU)
			xp_add_capped(&sampled_ns, causes->list[i].extra_ns);
	XP_ARRAY_KEEP(causes->list, causes->count, i,
		      causes->list[i].kind != XP_CAUSE_CPU || causes->list[i].extra_ns >= sampled_ns / SAMPLED_SHARE);
	if (causes->count)
		qsort(causes->list, causes->count, sizeof(*causes->list), compare_threads);
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct xp_slow_calls *calls = arg;
	const struct xp_cause *x = a, *y = b;

	return xp_compare(calls->functions[x->function].is_background, calls->functions[y->function].is_background) ?:
	       xp_compare(y->extra_ns, x->extra_ns) ?: xp_compare(x->example->begin_ns, y->example->begin_ns);
}

void xp_causes_sort(struct xp_causes *causes, const struct xp_slow_calls *calls)
{
	if (causes->count)
		qsort_r(causes->list, causes->count, sizeof(*causes->list), compare, (void *)calls);
}

void xp_causes_free(struct xp_causes *causes)
{
	free(causes->list);
	xp_u64_map_free(&causes->by_key);
	xp_u64_map_free(&causes->recorded);
}
