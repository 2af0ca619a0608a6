/* SPDX-License-Identifier: BSD-2-Clause */
/* Merging of per-CPU rings, on hand-made rings in the kernel's layout. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

#include <linux/bpf.h>

#include "base/interrupt.h"
#include "kernel/merge.h"

#define CPUS 3
#define RING_BYTES 4096

struct world {
	struct xp_rings rings;
	struct xp_ring ring[CPUS];
	uint64_t consumer[CPUS];
	uint64_t producer[CPUS];
	struct xp_clock clock;
	struct xp_merge *merge;
	uint64_t seen[128]; /* time << 8 | tid */
	size_t seen_count;
	int sink_error;
};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	for (int cpu = 0; cpu < CPUS; cpu++) {
		world->ring[cpu] = (struct xp_ring){
			.map_fd = -1,
			.data = calloc(2, RING_BYTES),
			.mask = RING_BYTES - 1,
			.consumer = &world->consumer[cpu],
			.producer = &world->producer[cpu],
		};
	}
	world->rings = (struct xp_rings){ world->ring, CPUS };
	world->clock = (struct xp_clock){ .hz = 1000000000, .mono_hz = 1000000000 };
	assert_int_equal(xp_merge_new(&world->merge, &world->rings, &world->clock), 0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	xp_merge_free(world->merge);
	for (int cpu = 0; cpu < CPUS; cpu++)
		free(world->ring[cpu].data);
	free(world);
	return 0;
}

/* Appends a record. Flags of its head may be BPF_RINGBUF_BUSY_BIT or _DISCARD_BIT. Returns the address of the head. */
static uint32_t *put(struct world *world, int cpu, uint64_t time, uint32_t tid, uint32_t flags)
{
	uint64_t at = world->producer[cpu];
	uint8_t *data = world->ring[cpu].data;
	struct xp_event event = { .time = time, .tid = tid };
	uint32_t head[2] = { sizeof(event) | flags, 0 };
	uint8_t bytes[sizeof(head) + sizeof(event)];

	memcpy(bytes, head, sizeof(head));
	memcpy(bytes + sizeof(head), &event, sizeof(event));
	/* The kernel maps the data twice in a row, so a record may cross the end. */
	for (size_t i = 0; i < sizeof(bytes); i++) {
		data[(at + i) & (RING_BYTES - 1)] = bytes[i];
		data[((at + i) & (RING_BYTES - 1)) + RING_BYTES] = bytes[i];
	}
	world->producer[cpu] += sizeof(bytes);
	return (uint32_t *)(data + (at & (RING_BYTES - 1)));
}

static int sink(void *arg, const struct xp_arrival *arrival)
{
	struct world *world = arg;

	assert_int_equal(arrival->size, sizeof(*arrival->event));
	assert_in_range(world->seen_count, 0, 127);
	world->seen[world->seen_count++] = arrival->tsc << 8 | arrival->event->tid;
	return world->sink_error;
}

static void assert_seen(struct world *world, const uint64_t (*expected)[2], size_t count)
{
	assert_int_equal(world->seen_count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(world->seen[i], expected[i][0] << 8 | expected[i][1]);
}

TEST_WITH(orders_by_tsc, setup, teardown)
{
	struct world *world = *state;
	static const uint64_t expected[][2] = { { 10, 1 }, { 20, 2 }, { 30, 3 }, { 40, 1 }, { 50, 2 } };

	put(world, 0, 10, 1, 0);
	put(world, 0, 40, 1, 0);
	put(world, 1, 20, 2, 0);
	put(world, 1, 50, 2, 0);
	put(world, 2, 30, 3, 0);
	assert_true(xp_merge_pass(world->merge, xp_clock_now_tsc(), sink, world) >= 0);
	assert_seen(world, expected, 5);
	for (int cpu = 0; cpu < CPUS; cpu++)
		assert_int_equal(world->consumer[cpu], world->producer[cpu]);
}

/* T1 stamped 5, was preempted, and reserved after T2 (7). T1 then moved to another CPU. Its records stay in order. */
TEST_WITH(keeps_a_threads_order_over_disorder_in_a_ring, setup, teardown)
{
	struct world *world = *state;
	static const uint64_t expected[][2] = { { 7, 2 }, { 5, 1 }, { 9, 1 } };

	put(world, 0, 7, 2, 0);
	put(world, 0, 5, 1, 0);
	put(world, 1, 9, 1, 0);
	xp_merge_pass(world->merge, xp_clock_now_tsc(), sink, world);
	assert_seen(world, expected, 3);
}

TEST_WITH(leaves_what_is_younger_than_the_pass, setup, teardown)
{
	struct world *world = *state;
	static const uint64_t expected[][2] = { { 10, 1 } };

	put(world, 0, 10, 1, 0);
	put(world, 0, xp_clock_now_tsc() + 100000000000ull, 1, 0);
	xp_merge_pass(world->merge, xp_clock_now_tsc(), sink, world);
	assert_seen(world, expected, 1);
	assert_int_equal(world->consumer[0], 32);
}

TEST_WITH(skips_discarded_records, setup, teardown)
{
	struct world *world = *state;
	static const uint64_t expected[][2] = { { 20, 1 } };

	put(world, 0, 10, 1, BPF_RINGBUF_DISCARD_BIT);
	put(world, 0, 20, 1, 0);
	xp_merge_pass(world->merge, xp_clock_now_tsc(), sink, world);
	assert_seen(world, expected, 1);
	assert_int_equal(world->consumer[0], 64);
}

TEST_WITH(waits_for_a_busy_record, setup, teardown)
{
	struct world *world = *state;
	static const uint64_t expected[][2] = { { 10, 1 }, { 15, 1 }, { 20, 2 } };
	uint64_t mark = xp_clock_now_tsc();
	uint32_t *busy;

	xp_merge_pass(world->merge, mark, sink, world);
	put(world, 0, 10, 1, 0);
	busy = put(world, 0, 15, 1, BPF_RINGBUF_BUSY_BIT);
	put(world, 1, 20, 2, 0);
	xp_merge_pass(world->merge, mark + 1, sink, world);
	assert_seen(world, expected, 1);
	assert_int_equal(xp_merge_done_tsc(world->merge), mark);
	*busy &= ~BPF_RINGBUF_BUSY_BIT;
	xp_merge_pass(world->merge, mark + 2, sink, world);
	assert_seen(world, expected, 3);
	assert_int_equal(xp_merge_done_tsc(world->merge), mark + 2);
}

TEST_WITH(loses_patience_when_another_ring_fills, setup, teardown)
{
	struct world *world = *state;
	uint64_t mark = xp_clock_now_tsc();

	/* 70 records of 32 bytes: more than half of the ring. */
	put(world, 0, 15, 1, BPF_RINGBUF_BUSY_BIT);
	for (int i = 0; i < 70; i++)
		put(world, 1, 20 + i, 2, 0);
	xp_merge_pass(world->merge, mark, sink, world);
	assert_int_equal(xp_merge_done_tsc(world->merge), mark);
	assert_int_equal(world->seen_count, 70);
	assert_int_equal(world->consumer[1], world->producer[1]);
	assert_int_equal(world->consumer[0], 0);
}

TEST_WITH(passes_the_sinks_error_on, setup, teardown)
{
	struct world *world = *state;
	static const uint64_t expected[][2] = { { 10, 1 }, { 20, 1 } };

	put(world, 0, 10, 1, 0);
	put(world, 0, 20, 1, 0);
	world->sink_error = -ENOSPC;
	assert_int_equal(xp_merge_pass(world->merge, xp_clock_now_tsc(), sink, world), -ENOSPC);
	assert_seen(world, expected, 1);
	world->sink_error = 0;
	xp_merge_pass(world->merge, xp_clock_now_tsc(), sink, world);
	assert_seen(world, expected, 2);
}

TEST_WITH(refuses_a_length_beyond_the_producer, setup, teardown)
{
	struct world *world = *state;

	*put(world, 0, 10, 1, 0) = 4000;
	assert_int_equal(xp_merge_pass(world->merge, xp_clock_now_tsc(), sink, world), -EBADMSG);
	assert_int_equal(world->seen_count, 0);
}

TEST_WITH(runs_over_the_end_of_a_ring, setup, teardown)
{
	struct world *world = *state;

	world->producer[0] = world->consumer[0] = world->ring[0].position = world->ring[0].published = RING_BYTES - 16;
	put(world, 0, 77, 3, 0);
	xp_merge_pass(world->merge, xp_clock_now_tsc(), sink, world);
	assert_int_equal(world->seen_count, 1);
	assert_int_equal(world->seen[0], 77 << 8 | 3);
}

TEST_WITH(drains_everything, setup, teardown)
{
	struct world *world = *state;

	for (int i = 0; i < 10; i++)
		put(world, i % CPUS, 100 - i, i, 0);
	assert_int_equal(xp_merge_drain(world->merge, sink, world), 0);
	assert_int_equal(world->seen_count, 10);
}

static int slow_sink(void *arg, const struct xp_arrival *arrival)
{
	usleep(1000);
	return sink(arg, arrival);
}

/* At the end of the recording, the pass does not reach the end of the rings; the last pass does. */
TEST_WITH(ends_early_when_interrupted, setup, teardown)
{
	struct world *world = *state;

	xp_interrupt_init(false, true);
	for (uint64_t i = 0; i < 40; i++)
		put(world, (int)(i % CPUS), 10 + i, (uint32_t)i, 0);
	xp_interrupt_set_deadline(1);
	assert_true(xp_merge_pass(world->merge, xp_clock_now_tsc(), slow_sink, world) >= 0);
	assert_int_equal(world->seen_count, 16);
	assert_int_equal(xp_merge_done_tsc(world->merge), 0);
	assert_int_equal(xp_merge_drain(world->merge, slow_sink, world), 0);
	xp_interrupt_set_deadline(0);
	assert_int_equal(world->seen_count, 40);
	for (uint64_t i = 0; i < 40; i++)
		assert_int_equal(world->seen[i], (10 + i) << 8 | i);
}
