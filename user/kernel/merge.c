/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <x86intrin.h>

#include "base/interrupt.h"

/*
 * Number of times that a pass polls a busy record before it gives up. This takes some us; the BPF program needs tens of
 * ns.
 */
#define BUSY_SPINS 200
/*
 * In a long pass, the time between two checks whether the recording has ended, and the number of records between two
 * readings of the clock.
 */
#define LOOK_NS 10000000
#define LOOK_RECORDS 16

struct xp_merge {
	struct xp_rings *rings;
	const struct xp_clock *clock;
	struct xp_arrival *heads; /* the next event of each ring: [rings->count] */
	/*
	 * The rings that have an event, as a heap with the oldest event first. They are pointers, because they are
	 * moved.
	 */
	struct xp_arrival **heap;
	unsigned int heap_count;
	uint64_t blocked_since; /* TSC at which a busy record first ended a pass; 0: the last pass was not blocked */
	uint64_t done_tsc;
	uint64_t next_look; /* TSC of the next check whether the recording has ended */
	bool drains;	    /* the recording has ended: emit everything */
};

int xp_merge_new(struct xp_merge **result, struct xp_rings *rings, const struct xp_clock *clock)
{
	struct xp_merge *merge = calloc(1, sizeof(*merge));

	if (!merge)
		return -ENOMEM;
	merge->heads = calloc(rings->count, sizeof(*merge->heads));
	merge->heap = calloc(rings->count, sizeof(*merge->heap));
	if (!merge->heads || !merge->heap) {
		xp_merge_free(merge);
		return -ENOMEM;
	}
	for (unsigned int cpu = 0; cpu < rings->count; cpu++)
		merge->heads[cpu].cpu = cpu;
	merge->rings = rings;
	merge->clock = clock;
	*result = merge;
	return 0;
}

void xp_merge_free(struct xp_merge *merge)
{
	if (!merge)
		return;
	free(merge->heads);
	free(merge->heap);
	free(merge);
}

/* Sifts head down from the top, until it is older than all entries below it. */
static void sift_down(struct xp_merge *merge, struct xp_arrival *head)
{
	struct xp_arrival **heap = merge->heap;
	unsigned int i = 0;

	for (;;) {
		unsigned int child = 2 * i + 1;

		if (child >= merge->heap_count)
			break;
		if (child + 1 < merge->heap_count && heap[child + 1]->tsc < heap[child]->tsc)
			child++;
		if (head->tsc <= heap[child]->tsc)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = head;
}

static void heap_push(struct xp_merge *merge, struct xp_arrival *head)
{
	unsigned int i = merge->heap_count++;

	while (i && head->tsc < merge->heap[(i - 1) / 2]->tsc) {
		merge->heap[i] = merge->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	merge->heap[i] = head;
}

static enum xp_ring_state next_head(struct xp_merge *merge, struct xp_arrival *head)
{
	struct xp_ring *ring = &merge->rings->rings[head->cpu];
	enum xp_ring_state state;

	for (unsigned int spin = 0;; spin++) {
		state = xp_ring_peek(ring, &head->event, &head->size);
		if (state != XP_RING_BUSY || spin == BUSY_SPINS)
			break;
		_mm_pause();
	}
	if (state == XP_RING_RECORD) {
		if (head->size < sizeof(struct xp_event))
			return XP_RING_BROKEN;
		head->tsc = xp_clock_tsc(merge->clock, head->event->time);
	}
	return state;
}

/* Takes a snapshot of all rings. Returns how full the fullest one is, in percent. */
unsigned int xp_merge_fill(struct xp_merge *merge)
{
	unsigned int fullest = 0;

	for (unsigned int cpu = 0; cpu < merge->rings->count; cpu++) {
		struct xp_ring *ring = &merge->rings->rings[cpu];
		unsigned int fill;

		xp_ring_snapshot(ring);
		fill = (ring->end - ring->position) * 100 / (ring->mask + 1);
		if (fill > fullest)
			fullest = fill;
	}
	return fullest;
}

/* Returns whether this pass may continue without a ring whose next record is busy. */
static bool out_of_patience(struct xp_merge *merge, unsigned int fullest)
{
	uint64_t now = xp_clock_now_tsc();

	if (!merge->blocked_since)
		merge->blocked_since = now;
	return fullest > 50 || now - merge->blocked_since > xp_clock_ticks(merge->clock, XP_MERGE_PATIENCE_NS);
}

/* Returns whether this pass ends early, after this many records: the recording has ended and the pass is long. */
static bool ends_early(struct xp_merge *merge, uint64_t records)
{
	uint64_t now;

	if (merge->drains || records % LOOK_RECORDS)
		return false;
	now = xp_clock_now_tsc();
	if (now < merge->next_look)
		return false;
	merge->next_look = now + xp_clock_ticks(merge->clock, LOOK_NS);
	return xp_interrupted();
}

static int merge_until(struct xp_merge *merge, uint64_t mark, unsigned int fullest, xp_merge_sink sink, void *arg)
{
	bool blocked = false;
	uint64_t records = 0;
	int err = 0;

	merge->heap_count = 0;
	merge->next_look = xp_clock_now_tsc() + xp_clock_ticks(merge->clock, LOOK_NS);
	for (unsigned int cpu = 0; cpu < merge->rings->count; cpu++) {
		struct xp_arrival *head = &merge->heads[cpu];
		enum xp_ring_state state = next_head(merge, head);

		if (state == XP_RING_BROKEN)
			return -EBADMSG;
		if (state == XP_RING_BUSY) {
			blocked = true;
			if (!out_of_patience(merge, fullest))
				return 0;
		}
		if (state == XP_RING_RECORD)
			heap_push(merge, head);
	}
	while (merge->heap_count && merge->heap[0]->tsc < mark && !err) {
		struct xp_arrival *head = merge->heap[0];
		enum xp_ring_state state;

		err = sink(arg, head);
		xp_ring_consume(&merge->rings->rings[head->cpu], head->size);
		if (!err && ends_early(merge, ++records))
			return 0;
		state = next_head(merge, head);
		if (state == XP_RING_RECORD) {
			sift_down(merge, head);
			continue;
		}
		if (state == XP_RING_BROKEN)
			return -EBADMSG;
		if (state == XP_RING_BUSY) {
			blocked = true;
			if (!out_of_patience(merge, fullest))
				return err;
		}
		merge->heap_count--;
		if (merge->heap_count)
			sift_down(merge, merge->heap[merge->heap_count]);
	}
	if (!blocked)
		merge->blocked_since = 0;
	if (!err)
		merge->done_tsc = mark;
	return err;
}

int xp_merge_pass(struct xp_merge *merge, uint64_t mark, xp_merge_sink sink, void *arg)
{
	unsigned int fullest = xp_merge_fill(merge);
	int err = merge_until(merge, mark, fullest, sink, arg);

	for (unsigned int cpu = 0; cpu < merge->rings->count; cpu++)
		xp_ring_publish(&merge->rings->rings[cpu]);
	return err ? err : (int)fullest;
}

int xp_merge_drain(struct xp_merge *merge, xp_merge_sink sink, void *arg)
{
	merge->drains = true;
	for (;;) {
		int fill = xp_merge_pass(merge, xp_clock_now_tsc(), sink, arg);
		bool empty = true;

		if (fill < 0)
			return fill;
		for (unsigned int cpu = 0; cpu < merge->rings->count; cpu++) {
			xp_ring_snapshot(&merge->rings->rings[cpu]);
			if (merge->rings->rings[cpu].position != merge->rings->rings[cpu].end)
				empty = false;
		}
		if (empty)
			return 0;
	}
}

uint64_t xp_merge_done_tsc(const struct xp_merge *merge)
{
	return merge->done_tsc;
}
