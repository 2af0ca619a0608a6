/* SPDX-License-Identifier: BSD-2-Clause */
/* The shadow stack, --min-duration, and the accounting of one thread's records. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "trace/functions.h"
#include "trace/thread.h"
#include "trace/thread_run.h"

/* The output as text: e<id> x<id> t<id> a<id>(args) c"payload" y<type>"payload". */
struct world {
	struct xp_thread_options options;
	struct xp_thread *thread;
	char log[1 << 20];
	size_t used;
	unsigned int chunks;
	unsigned int open;  /* calls in the log, at the end of the last chunk */
	unsigned int depth; /* depth of the thread when the chunk was stored */
	unsigned int synthesized[16];
	int sink_error;
	uint64_t tsc;
	char ended[256]; /* watched calls: "fn of frames: ticks" */
};

static uint64_t le(const uint8_t *p, int bytes)
{
	uint64_t value = 0;

	for (int i = bytes; i-- > 0;)
		value = value << 8 | p[i];
	return value;
}

static void say(struct world *world, const char *format, unsigned long long a, unsigned long long b)
{
	assert_true(world->used + 64 < sizeof(world->log));
	world->used += snprintf(world->log + world->used, 64, format, a, b);
}

static int sink(void *arg, struct xp_thread *thread)
{
	struct world *world = arg;
	const uint8_t *p = thread->enc.buf, *end = p + thread->enc.len;

	world->chunks++;
	world->depth = thread->depth;
	while (p < end) {
		if (!(p[0] & 1)) {
			uint32_t word = le(p, 4);

			say(world, (const char *[]){ "e%llu ", "x%llu ", "t%llu ", "a%llu " }[word >> 1 & 7], word >> 4,
			    0);
			world->open += (word >> 1 & 7) == XP_FDR_ENTER ? 1 : -1u;
			p += 8;
			continue;
		}
		if (p[0] >> 1 == XP_FDR_CALL_ARGUMENT)
			say(world, "(%llu) ", le(p + 1, 8), 0);
		if (p[0] >> 1 == XP_FDR_CUSTOM_EVENT || p[0] >> 1 == XP_FDR_TYPED_EVENT) {
			say(world, "ev%llu ", le(p + 1, 4), 0);
			p += le(p + 1, 4);
		}
		p += 16;
	}
	return world->sink_error;
}

static void synthesized(void *arg, uint32_t fn_id)
{
	struct world *world = arg;

	world->synthesized[fn_id]++;
}

static int setup_min(void **state, uint64_t min_ticks)
{
	struct world *world = calloc(1, sizeof(*world));

	world->options = (struct xp_thread_options){ min_ticks, sink, world, .synthesized = synthesized };
	assert_int_equal(xp_thread_new(&world->thread, &world->options, 7), 0);
	*state = world;
	return 0;
}

static int setup(void **state)
{
	return setup_min(state, 0);
}

static int setup_threshold(void **state)
{
	return setup_min(state, 100);
}

static int teardown(void **state)
{
	struct world *world = *state;

	xp_thread_free(world->thread);
	free(world);
	return 0;
}

/* Puts a record of function fn at stack slot sp, this many ticks after the previous record. */
static int feed(struct world *world, enum xp_event_kind kind, uint32_t fn, uint32_t sp, uint64_t ticks)
{
	static const struct xp_event_args args = { .count = 2, .args = { 11, 22 } };
	struct xp_call call = { world->tsc += ticks, xp_event_word(fn, kind), sp, .cpu = 0 };

	if (kind == XP_EVENT_ENTRY_ARGS)
		call.event = &args.head;
	return xp_thread_put(world->thread, &call);
}

static void enter(struct world *world, uint32_t fn, uint32_t sp)
{
	assert_int_equal(feed(world, XP_EVENT_ENTRY, fn, sp, 10), 0);
}

static void leave(struct world *world, uint32_t fn, uint32_t sp)
{
	assert_int_equal(feed(world, XP_EVENT_EXIT, fn, sp, 10), 0);
}

static void assert_log(struct world *world, const char *expected)
{
	const struct xp_counts *counts = &world->thread->counts;

	assert_int_equal(xp_thread_flush(world->thread), 0);
	assert_string_equal(world->log, expected);
	assert_int_equal(counts->seen, counts->written + xp_counts_filtered(counts) + counts->unstored);
}

TEST_WITH(writes_nested_calls, setup, teardown)
{
	struct world *world = *state;

	enter(world, 1, 100);
	enter(world, 2, 90);
	leave(world, 2, 90);
	assert_int_equal(feed(world, XP_EVENT_TAIL_EXIT, 1, 100, 5), 0);
	enter(world, 3, 100);
	leave(world, 3, 100);
	assert_log(world, "e1 e2 x2 t1 e3 x3 ");
	assert_int_equal(world->thread->counts.written, 6);
	assert_int_equal(world->thread->counts.synthesized, 0);
}

TEST_WITH(writes_arguments, setup, teardown)
{
	struct world *world = *state;

	assert_int_equal(feed(world, XP_EVENT_ENTRY_ARGS, 4, 100, 5), 0);
	leave(world, 4, 100);
	assert_log(world, "a4 (11) (22) x4 ");
}

TEST_WITH(drops_exits_of_calls_from_before, setup, teardown)
{
	struct world *world = *state;

	leave(world, 5, 80);
	enter(world, 1, 90);
	leave(world, 1, 90);
	leave(world, 6, 100);
	assert_log(world, "e1 x1 ");
	assert_int_equal(world->thread->counts.filtered[XP_FILTER_UNMATCHED_EXIT], 2);
}

TEST_WITH(closes_frames_that_a_throw_left, setup, teardown)
{
	struct world *world = *state;

	enter(world, 1, 100);
	enter(world, 2, 90);
	enter(world, 3, 80);
	leave(world, 1, 100);
	assert_log(world, "e1 e2 e3 x3 x2 x1 ");
	assert_int_equal(world->thread->counts.synthesized, 2);
	assert_int_equal(world->synthesized[2], 1);
	assert_int_equal(world->synthesized[3], 1);
	assert_int_equal(world->thread->counts.written, 4);
}

/* A call of a goroutine ends all calls that are not above it: it is on one stack. Others may have several stacks. */
TEST_WITH(closes_frames_that_a_panic_left_in_a_goroutine, setup, teardown)
{
	struct world *world = *state;

	world->thread->goroutine = 0xc000;
	enter(world, 1, 100);
	enter(world, 2, 90);
	enter(world, 3, 80);
	enter(world, 4, 95);
	leave(world, 4, 95);
	enter(world, 5, 2 * XP_STACK_SLOTS);
	assert_log(world, "e1 e2 e3 x3 x2 e4 x4 x1 e5 ");
	assert_int_equal(world->thread->counts.synthesized, 3);
}

/* setjmp in a loop of a function that never returns: frames must not accumulate. */
TEST_WITH(closes_a_frame_whose_slot_is_used_again, setup, teardown)
{
	struct world *world = *state;

	enter(world, 1, 100);
	for (int i = 0; i < 3; i++) {
		enter(world, 2, 90);
		enter(world, 3, 80);
	}
	assert_int_equal(world->thread->depth, 3);
	assert_log(world, "e1 e2 e3 x3 x2 e2 e3 x3 x2 e2 e3 ");
}

TEST_WITH(tells_recursive_calls_apart_by_their_slot, setup, teardown)
{
	struct world *world = *state;

	/* The inner call's exit was lost: the outer call's exit must not end it. */
	enter(world, 1, 100);
	enter(world, 1, 90);
	leave(world, 1, 100);
	assert_log(world, "e1 e1 x1 x1 ");
	assert_int_equal(world->thread->depth, 0);
	assert_int_equal(world->thread->counts.synthesized, 1);
}

/* A spool has the open calls after each chunk: those of the log so far, even if the next record is an exit. */
TEST_WITH(is_as_deep_as_its_chunks, setup, teardown)
{
	struct world *world = *state;

	for (unsigned int outer = 1; outer <= 4; outer++) {
		unsigned int chunks = world->chunks;

		for (unsigned int i = 0; i < outer; i++)
			enter(world, 3, 90 - i);
		/* One of these calls fills the chunk: for each number of outer calls, another one. */
		while (world->chunks == chunks) {
			const enum xp_event_kind kinds[] = { XP_EVENT_ENTRY, XP_EVENT_ENTRY, XP_EVENT_EXIT };
			const uint32_t fns[] = { 1, 2, 1 }, slots[] = { 50, 40, 50 };

			for (size_t i = 0; i < 3 && world->chunks == chunks; i++)
				feed(world, kinds[i], fns[i], slots[i], 10);
		}
		assert_int_equal(world->depth, world->open);
		leave(world, 3, 90);
		assert_int_equal(xp_thread_flush(world->thread), 0);
		assert_int_equal(world->open, 0);
	}
}

/* A signal handler on a stack above the thread's own. */
TEST_WITH(bears_another_stack, setup, teardown)
{
	struct world *world = *state;

	enter(world, 1, 100);
	enter(world, 2, 90);
	enter(world, 3, 5000);
	leave(world, 3, 5000);
	leave(world, 2, 90);
	leave(world, 1, 100);
	assert_log(world, "e1 e2 e3 x3 x2 x1 ");
	assert_int_equal(world->thread->counts.synthesized, 0);
}

/* Exceptions abandoned 2 and 4; 3 still runs when 5 is in the slot of 2. */
TEST_WITH(keeps_the_caller_of_a_call_at_a_left_place, setup, teardown)
{
	struct world *world = *state;

	enter(world, 1, 100);
	enter(world, 2, 60);
	enter(world, 3, 90);
	enter(world, 4, 40);
	enter(world, 5, 60);
	leave(world, 5, 60);
	leave(world, 3, 90);
	leave(world, 1, 100);
	assert_log(world, "e1 e2 e3 e4 e5 x5 x4 x3 x2 x1 ");
	assert_int_equal(world->synthesized[3], 0);
}

/* 2 is a signal handler on a separate stack, which it leaves by a jump. */
TEST_WITH(keeps_what_a_handler_interrupts, setup, teardown)
{
	const uint32_t handler = 50u << 20;
	struct world *world = *state;

	enter(world, 1, 100);
	enter(world, 2, handler);
	enter(world, 3, 90);
	enter(world, 2, handler);
	enter(world, 4, 80);
	leave(world, 4, 80);
	leave(world, 3, 90);
	leave(world, 1, 100);
	assert_log(world, "e1 e2 e3 e2 e4 x4 x2 x3 x2 x1 ");
	assert_int_equal(world->synthesized[3], 0);
}

TEST_WITH(leaves_open_calls_open, setup, teardown)
{
	struct world *world = *state;

	enter(world, 1, 100);
	enter(world, 2, 90);
	assert_log(world, "e1 e2 ");
}

/* Function 2 was throttled while calls of it were open. */
TEST_WITH(ends_calls_that_are_forgotten, setup, teardown)
{
	struct world *world = *state;

	enter(world, 1, 100);
	enter(world, 2, 90);
	/* A call at the top ends immediately. A call that the function makes after its return is a separate call. */
	assert_int_equal(xp_thread_forget(world->thread, 2), 0);
	leave(world, 2, 90);
	enter(world, 2, 90);
	leave(world, 2, 90);
	leave(world, 1, 100);
	assert_log(world, "e1 e2 x2 e2 x2 x1 ");
	assert_int_equal(world->thread->counts.synthesized, 1);
	assert_int_equal(world->thread->counts.filtered[XP_FILTER_UNMATCHED_EXIT], 1);
}

TEST_WITH(ends_forgotten_calls_with_what_they_called, setup, teardown)
{
	struct world *world = *state;

	enter(world, 1, 100);
	enter(world, 2, 90);
	enter(world, 2, 80);
	enter(world, 3, 70);
	assert_int_equal(xp_thread_forget(world->thread, 2), 0);
	/* The exit of a call that started while the function was throttled, in the slot of a forgotten call. */
	leave(world, 2, 80);
	leave(world, 3, 70);
	leave(world, 1, 100);
	assert_log(world, "e1 e2 e2 e3 x3 x2 x2 x1 ");
	assert_int_equal(world->thread->counts.synthesized, 2);
	assert_int_equal(world->synthesized[2], 2);
	assert_int_equal(world->thread->counts.filtered[XP_FILTER_UNMATCHED_EXIT], 1);
}

TEST_WITH(forgets_nothing_else, setup, teardown)
{
	struct world *world = *state;

	enter(world, 1, 100);
	enter(world, 3, 90);
	assert_int_equal(xp_thread_forget(world->thread, 2), 0);
	leave(world, 3, 90);
	leave(world, 1, 100);
	assert_log(world, "e1 e3 x3 x1 ");
	assert_int_equal(world->thread->counts.synthesized, 0);
}

TEST_WITH(drops_short_leaf_calls, setup_threshold, teardown)
{
	struct world *world = *state;

	enter(world, 1, 100); /* long */
	enter(world, 2, 90);  /* short leaf */
	leave(world, 2, 90);
	assert_int_equal(feed(world, XP_EVENT_ENTRY, 3, 90, 10), 0); /* long leaf */
	assert_int_equal(feed(world, XP_EVENT_EXIT, 3, 90, 100), 0);
	leave(world, 1, 100);
	assert_log(world, "e1 e3 x3 x1 ");
	assert_int_equal(world->thread->counts.filtered[XP_FILTER_MIN_DURATION], 2);
}

/* A caller becomes a leaf when its callees are dropped, as in XRay's own FDR mode. */
TEST_WITH(drops_short_callers_of_dropped_calls, setup_threshold, teardown)
{
	struct world *world = *state;

	enter(world, 9, 110);
	assert_int_equal(feed(world, XP_EVENT_ENTRY, 1, 100, 200), 0);
	enter(world, 2, 90);
	leave(world, 2, 90);
	leave(world, 1, 100);
	leave(world, 9, 110);
	assert_log(world, "e9 x9 ");
	assert_int_equal(world->thread->counts.filtered[XP_FILTER_MIN_DURATION], 4);
}

TEST_WITH(keeps_short_calls_around_an_event, setup_threshold, teardown)
{
	struct world *world = *state;
	const struct xp_event_payload event = { .size = 0 };
	const struct xp_call call = { .tsc = 10, .word = xp_event_word(1, XP_EVENT_CUSTOM), .event = &event.head };

	enter(world, 1, 100);
	assert_int_equal(xp_thread_put(world->thread, &call), 0);
	leave(world, 1, 100);
	assert_log(world, "e1 ev1 x1 ");
}

TEST_WITH(filters_calls_beyond_the_deepest, setup, teardown)
{
	struct world *world = *state;

	for (uint32_t i = 0; i < XP_FRAMES_MAX + 3; i++)
		assert_int_equal(feed(world, XP_EVENT_ENTRY, 1, 0x40000000 - i, 1), 0);
	for (uint32_t i = XP_FRAMES_MAX + 3; i-- > XP_FRAMES_MAX;)
		assert_int_equal(feed(world, XP_EVENT_EXIT, 1, 0x40000000 - i, 1), 0);
	assert_int_equal(world->thread->counts.filtered[XP_FILTER_TOO_DEEP], 6);
	assert_int_equal(world->thread->depth, XP_FRAMES_MAX);
	world->used = 0;
}

static int drop(void *arg, struct xp_thread *thread)
{
	(void)thread;
	return ((struct world *)arg)->sink_error;
}

static void enter_deep(struct world *world, uint32_t depth)
{
	world->options.sink = drop;
	for (uint32_t i = 0; i < depth; i++)
		enter(world, 1, 0x40000000 - i);
}

/* Forged records that match no open call cost a bounded search each, at any depth of the thread. */
TEST_WITH(searches_a_bounded_number_of_frames, setup, teardown)
{
	struct world *world = *state;
	const uint64_t records = 2000, looks_max = XP_FRAMES_MAX + 2 * records * 2048;

	enter_deep(world, XP_FRAMES_MAX - 2 * records);
	for (uint32_t i = 0; i < records; i++) {
		leave(world, 2, 0x50000000 + i);
		/* Each record is on another stack, above the last one. */
		enter(world, 2, 0x60000000 + (i << 12));
	}
	assert_in_range(world->thread->search.frames, 2 * records, looks_max);
	assert_int_equal(world->thread->counts.filtered[XP_FILTER_UNMATCHED_EXIT], records);
	assert_int_equal(world->thread->depth, XP_FRAMES_MAX - records);
	world->used = 0;
}

/* A throw out of the deepest recursion: the exit of the outermost call is found. */
TEST_WITH(finds_the_catcher_of_a_deep_throw, setup, teardown)
{
	struct world *world = *state;

	enter_deep(world, XP_FRAMES_MAX);
	leave(world, 1, 0x40000000);
	assert_int_equal(world->thread->depth, 0);
	assert_int_equal(world->thread->counts.synthesized, XP_FRAMES_MAX - 1);
	/* Each exit of a returning recursion matches the top: no search is necessary. */
	world->thread->search.frames = 0;
	enter_deep(world, XP_FRAMES_MAX);
	for (uint32_t i = XP_FRAMES_MAX; i-- > 0;)
		leave(world, 1, 0x40000000 - i);
	assert_int_equal(world->thread->counts.filtered[XP_FILTER_UNMATCHED_EXIT], 0);
	assert_int_equal(world->thread->search.frames, 0);
	world->used = 0;
}

TEST_WITH(splits_into_chunks_and_counts_what_is_not_stored, setup, teardown)
{
	struct world *world = *state;
	int err = 0;

	world->options.sink = drop;
	for (int i = 0; i < 3000 && !err; i++) {
		world->sink_error = i < 2000 ? 0 : -ENOSPC;
		err = feed(world, XP_EVENT_ENTRY, 1, 100 - i, 10);
	}
	assert_int_equal(err, -ENOSPC);
	assert_true(world->thread->counts.unstored > 0);
	assert_int_equal(world->thread->counts.seen, world->thread->counts.written + world->thread->counts.unstored);
}

TEST_WITH(never_goes_back_in_time, setup, teardown)
{
	struct world *world = *state;

	world->tsc = 1000;
	enter(world, 1, 100);
	world->tsc = 500;
	leave(world, 1, 100);
	assert_int_equal(world->thread->clamped, 1);
	assert_int_equal(world->thread->last_tsc, 1010);
	assert_log(world, "e1 x1 ");
}

/* Calls in any order: nested, exits without entries, abandoned frames, long gaps, functions that are throttled. */
static struct xp_call any_call(unsigned int *seed, uint64_t *tsc, uint16_t cpu)
{
	unsigned int dice = (unsigned int)rand_r(seed);
	static const enum xp_event_kind kinds[] = { XP_EVENT_ENTRY, XP_EVENT_EXIT, XP_EVENT_ENTRY, XP_EVENT_TAIL_EXIT };

	*tsc += dice % 97 ? 5 : 5ull << 32;
	return (struct xp_call){ *tsc - (dice % 89 ? 0 : 7), xp_event_word(1 + dice % 3, kinds[dice / 8 % 4]),
				 100 - dice / 64 % 8, .cpu = cpu };
}

static int put_run(struct xp_thread *thread, const struct xp_call *calls, size_t count)
{
	int err = 0;

	for (size_t i = 0; i < count && !err;) {
		struct xp_thread_run run = xp_thread_run_begin(thread, calls[i].cpu);

		for (; i < count; i++) {
			uint64_t ticks = calls[i].tsc - run.last_tsc;

			if (ticks > UINT32_MAX ||
			    !xp_thread_run_put(&run, ticks, calls[i].word, calls[i].slot, calls[i].tsc))
				break;
			run.last_tsc = calls[i].tsc;
		}
		xp_thread_run_end(thread, &run);
		if (i < count)
			err = xp_thread_put(thread, &calls[i++]);
	}
	return err;
}

/* Calls read in one batch give the same log as the same calls one by one. */
TEST_WITH(puts_runs_of_calls, setup, teardown)
{
	struct world *world = *state, *other;
	struct xp_call calls[64];
	unsigned int seed = 7;
	uint64_t tsc = 1;

	assert_int_equal(setup((void **)&other), 0);
	for (int round = 0; round < 200; round++) {
		for (size_t i = 0; i < 64; i++) {
			calls[i] = any_call(&seed, &tsc, round / 50);
			assert_int_equal(xp_thread_put(other->thread, &calls[i]), 0);
		}
		assert_int_equal(put_run(world->thread, calls, 64), 0);
		if (round % 10)
			continue;
		assert_int_equal(xp_thread_forget(world->thread, 2), 0);
		assert_int_equal(xp_thread_forget(other->thread, 2), 0);
	}
	assert_memory_equal(&world->thread->counts, &other->thread->counts, sizeof(world->thread->counts));
	assert_true(world->thread->counts.synthesized && world->thread->counts.filtered[XP_FILTER_UNMATCHED_EXIT]);
	assert_int_equal(world->thread->clamped, other->thread->clamped);
	assert_int_equal(xp_thread_flush(other->thread), 0);
	assert_log(world, other->log);
	teardown((void **)&other);
}

static void note_end(void *arg, const struct xp_thread *thread, const struct xp_ended_call *call)
{
	struct world *world = arg;
	size_t used = strlen(world->ended);

	assert_int_equal(thread->frames[call->frame].fn_id, call->fn_id);
	snprintf(world->ended + used, sizeof(world->ended) - used, "%u of %u: %llu, ", call->fn_id, call->frame + 1,
		 (unsigned long long)(call->end_tsc - call->begin_tsc));
}

/* Each call of a watched function is reported when it ends, in any way, with its time and its callers. */
TEST_WITH(tells_the_end_of_watched_calls, setup, teardown)
{
	uint8_t by_id[8] = { [2] = 1, [5] = 1 };
	const struct xp_watched watched = { by_id };
	struct world *world = *state;

	world->options.watched = &watched;
	world->options.watched_end = note_end;
	leave(world, 2, 95); /* the call started before the recording */
	enter(world, 1, 100);
	enter(world, 2, 90);
	enter(world, 2, 80); /* recursion */
	leave(world, 2, 80);
	enter(world, 3, 80);
	leave(world, 3, 80);
	leave(world, 2, 90);
	assert_string_equal(world->ended, "2 of 3: 10, 2 of 2: 50, ");
	world->ended[0] = 0;
	enter(world, 2, 90);
	enter(world, 5, 80);
	enter(world, 3, 70);
	leave(world, 1, 100); /* a throw out of all calls */
	assert_string_equal(world->ended, "5 of 3: 20, 2 of 2: 30, ");
	world->ended[0] = 0;
	/* An abandoned frame is not mistaken for the frame at its place. */
	enter(world, 2, 90);
	enter(world, 3, 90);
	leave(world, 3, 90);
	enter(world, 2, 90);
	leave(world, 2, 90);
	assert_string_equal(world->ended, "2 of 1: 10, 2 of 1: 10, ");
	world->ended[0] = 0;
	enter(world, 2, 90);
	assert_int_equal(xp_thread_forget(world->thread, 2), 0);
	leave(world, 2, 90);
	assert_string_equal(world->ended, "");
}
