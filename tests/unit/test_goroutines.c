// SPDX-License-Identifier: BSD-2-Clause
/* Goroutines: each has its own shadow stack, on any thread. */
#include "trace/goroutines.h"

#include <string.h>

#include "arrivals.h"
#include "trace/thread_stacks.h"
#include "unit.h"

static struct xp_sled_table table = { .function_count = 2 };
static struct xp_object object = { .table = &table };

struct world {
	struct xp_processes processes;
	struct xp_process *process;
	uint64_t tsc;
};

static int setup(void **state)
{
	const struct xp_sled_result sleds = { .attached = 4 };
	struct xp_target_info info = { 0 };
	struct world *world = calloc(1, sizeof(*world));

	world->processes = (struct xp_processes){ .flight_bytes = 1 << 20 };
	xp_processes_init(&world->processes);
	assert_int_equal(xp_processes_add(&world->processes, &world->process, 7, &info, 1), 0);
	assert_int_equal(xp_functions_add(&world->process->functions, &object, &sleds), 0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	xp_processes_free(&world->processes);
	free(world);
	return 0;
}

/* slots: below the end of the goroutine's stack. */
static void record(struct world *world, enum xp_event_kind kind, uint64_t goroutine, uint32_t tid, uint32_t slots)
{
	const struct xp_event_go event = {
		.head = { .pid = 7, .tid = tid, .word = xp_event_word(1, kind), .sp = -slots },
		.goroutine = goroutine,
	};

	assert_int_equal(xp_processes_record(&world->processes, ARRIVAL(event, world->tsc += 10)), 0);
}

static struct xp_counts end(struct world *world)
{
	assert_int_equal(xp_process_end(world->process), 0);
	assert_int_equal(world->process->goroutines.by_address.count, 0);
	assert_int_equal(world->process->stacks.count, 0);
	assert_int_equal(world->process->stacks.frames, 0);
	return world->process->sums.counts;
}

TEST_WITH(calls_of_two_goroutines_on_two_threads, setup, teardown)
{
	struct world *world = *state;
	struct xp_counts counts;

	record(world, XP_EVENT_GO_ENTRY, 0xa0, 7, 10);
	record(world, XP_EVENT_GO_ENTRY, 0xb0, 8, 10);
	record(world, XP_EVENT_GO_ENTRY, 0xa0, 8, 20);
	record(world, XP_EVENT_GO_EXIT, 0xb0, 7, 10);
	record(world, XP_EVENT_GO_EXIT, 0xa0, 7, 20);
	record(world, XP_EVENT_GO_EXIT, 0xa0, 8, 10);
	/* Without a goroutine: the thread's own. */
	record(world, XP_EVENT_GO_ENTRY, 0, 8, 10);
	record(world, XP_EVENT_GO_EXIT, 0, 8, 10);
	assert_int_equal(world->process->goroutines.by_address.count, 2);
	counts = end(world);
	assert_int_equal(counts.seen, 8);
	assert_int_equal(xp_counts_filtered(&counts) + counts.synthesized, 0);
	assert_int_equal(world->process->sums.thread_count, 3);
	assert_true(world->process->sums.summaries[0].tid >= XP_STACK_TID ||
		    world->process->sums.summaries[1].tid >= XP_STACK_TID);
}

TEST_WITH(idle_goroutines_are_used_again, setup, teardown)
{
	struct world *world = *state;

	for (uint64_t i = 1; i <= 5000; i++) {
		record(world, XP_EVENT_GO_ENTRY, i, 7, 10);
		record(world, XP_EVENT_GO_EXIT, i, 7, 10);
	}
	assert_int_equal(world->process->stacks.count, 1024);
	assert_int_equal(world->process->goroutines.by_address.count, 1024);
	assert_int_equal(end(world).synthesized, 0);
}

/* A process can make up any number of goroutines. */
TEST_WITH(goroutines_beyond_the_limit, setup, teardown)
{
	struct world *world = *state;
	struct xp_counts counts;

	for (uint64_t i = 1; i <= XP_STACKS_MAX + 3; i++)
		record(world, XP_EVENT_GO_ENTRY, i, 7, 10);
	assert_int_equal(world->process->stacks.count, XP_STACKS_MAX);
	counts = end(world);
	assert_int_equal(counts.filtered[XP_FILTER_TOO_DEEP], 3);
	assert_int_equal(counts.seen, XP_STACKS_MAX + 3);
}
