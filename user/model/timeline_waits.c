// SPDX-License-Identifier: BSD-2-Clause
#include "model/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "model/stack_shapes.h"
#include "model/tree.h"
#include "model/read_waits.h"

#define TRACK_NAME "Waits"
#define FRAMES_SHOWN 16
#define PLACE_BYTES 2048

/* IDs of names; the ID of a state is its letter. */
#define STATE_IDS 256
enum { WAKES_ID = STATE_IDS, WHERE_ID, WOKEN_ID, WEIGHT_ID };

/* ---- items: what is on the track of a thread ---- */

/* The start of a wait, or the time at which the thread ended another thread's wait. */
struct item {
	uint64_t time_ns;
	uint32_t thread;
	uint32_t wait; /* index of the wait, with IS_WAKING or without */
};
#define IS_WAKING (1u << 31)
_Static_assert(XP_MODEL_WAITS_MAX <= IS_WAKING, "indexes have room for the bit");

struct writing {
	struct xp_model *model;
	struct xp_perfetto *perfetto;
	uint64_t start_ns;
	struct item *items;
	size_t item_count;
	struct xp_u64_map by_tid; /* by PID and TID: index of the thread plus one */
	uint32_t sequence;
	const struct xp_model_wait *open; /* the wait with an open slice; NULL: none */
	bool is_blocked;		  /* the slice ends when the thread is woken */
};

static int compare_items(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return xp_compare(x->thread, y->thread) ?: xp_compare(x->time_ns, y->time_ns) ?: xp_compare(x->wait, y->wait);
}

static uint32_t waker_of(const struct writing *writing, const struct xp_model_wait *wait)
{
	const uint32_t *thread = wait->waker_tid ? xp_u64_map_find(&writing->by_tid, wait->waker_tid) : NULL;

	return thread ? *thread - 1 : XP_MODEL_NONE;
}

/* A flow arrow needs an event at both ends. */
static bool has_flow(const struct writing *writing, const struct xp_model_wait *wait)
{
	return wait->state != XP_WAIT_PREEMPTED && wait->runnable_ns && waker_of(writing, wait) != XP_MODEL_NONE;
}

static int make_items(struct writing *writing)
{
	const struct xp_model *model = writing->model;

	for (size_t i = 0; i < model->thread_count; i++) {
		uint32_t *thread = xp_u64_map_add(&writing->by_tid, model->threads[i].tid, 0);

		if (!thread)
			return -ENOMEM;
		*thread = (uint32_t)i + 1; /* the last thread with this ID */
	}
	writing->items = calloc(2 * model->wait_count + 1, sizeof(*writing->items));
	if (!writing->items)
		return -ENOMEM;
	for (size_t i = 0; i < model->wait_count; i++) {
		const struct xp_model_wait *wait = &model->waits[i];
		const struct xp_model_thread *thread = &model->threads[wait->thread];

		/* A thread without an ID has no track. */
		if (!thread->tid && !model->processes[thread->process].pid)
			continue;
		writing->items[writing->item_count++] = (struct item){ wait->begin_ns, wait->thread, (uint32_t)i };
		if (has_flow(writing, wait))
			writing->items[writing->item_count++] = (struct item){
				xp_model_wait_blocked_until(wait),
				waker_of(writing, wait),
				(uint32_t)i | IS_WAKING,
			};
	}
	qsort(writing->items, writing->item_count, sizeof(*writing->items), compare_items);
	return 0;
}

/* ---- events ---- */

static void add_argument(struct xp_perfetto_event *event, uint64_t id, const char *name, const char *text)
{
	event->arguments[event->argument_count++] = (struct xp_perfetto_argument){ .name = { id, name }, .text = text };
}

/* Formats "pthread_mutex_lock < lookup < serve". */
static void put_place(char to[PLACE_BYTES], const struct xp_model *model, uint32_t stack)
{
	const char *names[FRAMES_SHOWN];
	size_t count = xp_stack_frames(model, stack, names, FRAMES_SHOWN), used = 0;

	to[0] = 0;
	for (size_t i = 0; i < XP_MIN(count, (size_t)FRAMES_SHOWN) && used < PLACE_BYTES; i++)
		used += (size_t)snprintf(to + used, PLACE_BYTES - used, "%s%s", i ? " < " : "", names[i]);
	to[xp_text_fit(to, PLACE_BYTES - 1)] = 0;
}

static int put_begin(struct writing *writing, bool is_blocked)
{
	const struct xp_model_wait *wait = writing->open;
	uint32_t state = is_blocked ? wait->state : XP_WAIT_PREEMPTED;
	char place[PLACE_BYTES], waker[XP_WAKER_BYTES], weight[32];
	struct xp_perfetto_event event = {
		.type = XP_PERFETTO_BEGIN,
		.time_ns = writing->start_ns + (is_blocked ? wait->begin_ns : xp_model_wait_blocked_until(wait)),
		.name = { state, xp_waits_state(state) },
	};

	put_place(place, writing->model, wait->stack);
	if (place[0])
		add_argument(&event, WHERE_ID, "where", place);
	if (wait->state != XP_WAIT_PREEMPTED)
		add_argument(&event, WOKEN_ID, "woken by",
			     xp_waits_waker(waker, wait->flags, wait->waker_name, wait->waker_tid));
	snprintf(weight, sizeof(weight), "%.6g", (double)XP_WAIT_CHANCE_ONE / wait->chance);
	if (wait->chance < XP_WAIT_CHANCE_ONE)
		add_argument(&event, WEIGHT_ID, "weight", weight);
	if (!is_blocked && has_flow(writing, wait))
		event.flow_end = (uint64_t)(wait - writing->model->waits) + 1;
	writing->is_blocked = is_blocked;
	return xp_perfetto_event(writing->perfetto, writing->sequence, &event);
}

static int put_end(struct writing *writing, uint64_t at_ns)
{
	const struct xp_perfetto_event event = { .type = XP_PERFETTO_END, .time_ns = writing->start_ns + at_ns };

	return xp_perfetto_event(writing->perfetto, writing->sequence, &event);
}

/* Writes what happens to the open slice up to a time. */
static int go_on(struct writing *writing, uint64_t until_ns)
{
	const struct xp_model_wait *wait = writing->open;
	uint64_t woken_ns = wait ? xp_model_wait_blocked_until(wait) : 0;
	int err = 0;

	if (wait && writing->is_blocked && woken_ns <= until_ns) {
		err = put_end(writing, woken_ns);
		if (!err && wait->runnable_ns)
			err = put_begin(writing, false);
		else
			writing->open = NULL;
	}
	if (!err && writing->open && !writing->is_blocked && wait->end_ns <= until_ns) {
		err = put_end(writing, wait->end_ns);
		writing->open = NULL;
	}
	return err;
}

static int put_waking(struct writing *writing, const struct xp_model_wait *wait)
{
	const struct xp_model_thread *thread = &writing->model->threads[wait->thread];
	char label[XP_MODEL_LABEL_BYTES];
	struct xp_perfetto_event event = {
		.type = XP_PERFETTO_INSTANT,
		.time_ns = writing->start_ns + xp_model_wait_blocked_until(wait),
		.name = { WAKES_ID, "wakes" },
		.flow_begin = (uint64_t)(wait - writing->model->waits) + 1,
	};

	add_argument(&event, WAKES_ID, "thread", xp_model_label(label, sizeof(label), thread->name, thread->tid));
	return xp_perfetto_event(writing->perfetto, writing->sequence, &event);
}

static int put_item(struct writing *writing, const struct item *item)
{
	const struct xp_model_wait *wait = &writing->model->waits[item->wait & ~IS_WAKING];
	/* If records contradict each other, the next wait ends the previous one. */
	int err = go_on(writing, item->time_ns) ?: item->wait & IS_WAKING ? 0 : go_on(writing, UINT64_MAX);

	if (err)
		return err;
	if (item->wait & IS_WAKING)
		return put_waking(writing, wait);
	writing->open = wait;
	return put_begin(writing, wait->state != XP_WAIT_PREEMPTED);
}

static int begin_thread(struct writing *writing, uint32_t index)
{
	const struct xp_model *model = writing->model;
	const struct xp_model_thread *thread = &model->threads[index];
	uint32_t pid = (uint32_t)model->processes[thread->process].pid, tid = (uint32_t)thread->tid;

	return xp_perfetto_sequence_beside(writing->perfetto, pid ? pid : tid, tid, TRACK_NAME, &writing->sequence);
}

/* Cuts off the waits before a time. */
static void cut_waits(struct xp_model *model, uint64_t from_ns)
{
	for (size_t i = 0; i < model->wait_count; i++) {
		struct xp_model_wait *wait = &model->waits[i];

		wait->begin_ns = XP_MIN(XP_MAX(wait->begin_ns, from_ns), wait->end_ns);
		wait->runnable_ns = XP_MIN(wait->runnable_ns, wait->end_ns - wait->begin_ns);
	}
}

int xp_timeline_waits_write(struct xp_model *model, struct xp_perfetto *perfetto, uint64_t start_ns, uint64_t from_ns)
{
	struct writing writing = { .model = model, .perfetto = perfetto, .start_ns = start_ns };
	int err;

	cut_waits(model, from_ns);
	err = make_items(&writing);

	for (size_t i = 0; !err && i < writing.item_count; i++) {
		const struct item *item = &writing.items[i];

		if (!i || item->thread != item[-1].thread)
			err = begin_thread(&writing, item->thread);
		err = err ?: put_item(&writing, item);
		if (!err && (i + 1 == writing.item_count || item[1].thread != item->thread)) {
			err = go_on(&writing, UINT64_MAX);
			xp_perfetto_end_sequences(perfetto);
		}
	}
	xp_u64_map_free(&writing.by_tid);
	free(writing.items);
	return err;
}
