/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of a ring give the same log as the same calls one by one, for any calls. */
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/clock.h"
#include "base/util.h"
#include "trace/ring_calls.h"
#include "trace/thread_run.h"

#define PID 7
#define TID 8
#define FUNCTIONS 5u
#define CALLS 60000u
/* Before and after the time bits of a record wrap around. */
#define WRAP (UINT64_MAX >> XP_CALL_CPU_BITS)

struct made {
	struct xp_processes processes;
	struct xp_process *process;
	uint8_t *log; /* all chunks */
	size_t bytes;
};

static struct xp_sled_table table = { .function_count = FUNCTIONS };
/* The functions of the second object have a budget, which has throttled one of them. */
static struct xp_function_budget budget[FUNCTIONS + 1];
static struct xp_object objects[2] = { { .table = &table, .fn_base = 100 },
				       { .table = &table, .fn_base = 1000, .budget = budget } };

static int keep(void *arg, struct xp_thread *thread)
{
	struct made *made = arg;

	made->log = realloc(made->log, made->bytes + thread->enc.len);
	assert_non_null(made->log);
	memcpy(made->log + made->bytes, thread->enc.buf, thread->enc.len);
	made->bytes += thread->enc.len;
	return 0;
}

static void ignore(void *arg, uint32_t fn_id)
{
	(void)arg;
	(void)fn_id;
}

/* late_tsc: when the sleds of the second object were attached. */
static void begin(struct made *made, uint64_t min_ticks, uint64_t late_tsc)
{
	struct xp_sled_result sleds = { .attached = 2, .begin_tsc = 1000 };
	struct xp_target_info info = { .comm = "program" };

	memset(made, 0, sizeof(*made));
	made->processes.min_ticks = min_ticks;
	xp_processes_init(&made->processes);
	assert_int_equal(xp_processes_add(&made->processes, &made->process, PID, &info, 1), 0);
	made->process->thread_options.sink = keep;
	made->process->thread_options.synthesized = ignore;
	made->process->thread_options.arg = made;
	assert_int_equal(xp_functions_add(&made->process->functions, &objects[0], &sleds), 0);
	sleds.begin_tsc = late_tsc;
	assert_int_equal(xp_functions_add(&made->process->functions, &objects[1], &sleds), 0);
	for (unsigned int i = 0; i <= FUNCTIONS; i++)
		budget[i] = (struct xp_function_budget){ .out_tsc = i == 2 ? 0 : UINT64_MAX };
}

static void end(struct made *made)
{
	free(made->log);
	xp_processes_free(&made->processes);
}

/* Puts calls of a thread: most are plain, and some are invalid. */
static void make_calls(struct xp_call *calls, uint64_t first_tsc)
{
	struct xp_call open[64];
	unsigned int depth = 0;
	uint64_t tsc = first_tsc;
	uint16_t cpu = 1;

	for (size_t i = 0; i < CALLS; i++) {
		unsigned int what = (unsigned int)random() % 1000, kind;
		struct xp_call *call = &calls[i];

		tsc += what == 0 ? 1ull << 33 : 1 + (unsigned int)random() % 100;
		cpu = what == 1 ? (uint16_t)(random() % 4096) : cpu;
		*call = (struct xp_call){ .tsc = tsc, .cpu = cpu };
		if (depth == XP_ARRAY_SIZE(open) || (depth && random() % 2)) {
			*call = open[--depth];
			kind = what < 500 ? XP_EVENT_EXIT : XP_EVENT_TAIL_EXIT;
			call->tsc = tsc;
			call->cpu = cpu;
			call->word = xp_event_word(call->word, (enum xp_event_kind)kind);
			if (what == 2) /* another call, which is not open */
				call->slot++;
			if (what == 3) /* an outer call: the inner calls were abandoned */
				depth -= depth ? 1 : 0;
		} else {
			uint32_t fn = (what % 4 ? 100 : 1000) + 1 + (unsigned int)random() % FUNCTIONS;

			call->word = xp_event_word(fn, XP_EVENT_ENTRY);
			call->slot = 0x10000000 - 16 * depth;
			open[depth++] = *call;
		}
		if (what == 4) /* a function of no object */
			call->word = xp_event_word(what, (enum xp_event_kind)(call->word >> XP_FN_BITS));
		if (what == 5 && depth) { /* an invalid record */
			call->word = xp_event_word(open[depth - 1].word, XP_EVENT_ENTRY_ARGS);
			call->slot = open[depth - 1].slot;
		}
	}
}

/* Makes the expected log: each call by itself. */
static void put_one_by_one(struct made *made, const struct xp_call *calls, uint64_t late_tsc)
{
	struct xp_thread *thread;

	assert_int_equal(xp_processes_thread(&made->processes, PID, TID, &thread), 0);
	for (size_t i = 0; i < CALLS; i++) {
		uint32_t kind = calls[i].word >> XP_FN_BITS, fn = calls[i].word & XP_FN_MAX;
		uint32_t id = fn > 1000 ? fn - 1000 + FUNCTIONS : fn - 100;

		if (kind > XP_EVENT_TAIL_EXIT || id - 1 >= 2 * FUNCTIONS || id == FUNCTIONS + 2 ||
		    (id > FUNCTIONS && calls[i].tsc < late_tsc))
			xp_thread_filter(thread, XP_FILTER_OUTSIDE);
		else
			xp_thread_put(thread,
				      &(struct xp_call){ calls[i].tsc, xp_event_word(id, (enum xp_event_kind)kind),
							 calls[i].slot, .cpu = calls[i].cpu });
	}
	assert_int_equal(xp_thread_flush(thread), 0);
}

/*
 * Makes the log from a ring with any number of calls at a time. A signal handler interrupted some calls, so their
 * records are newer than the records after them.
 */
static void put_by_ring(struct made *made, const struct xp_call *calls)
{
	struct xp_call_record *records = calloc(XP_CALL_RING_RECORDS, sizeof(*records));
	struct xp_call_header header = { 0 };
	struct xp_thread_ring ring = { 0 };

	assert_non_null(records);
	xp_call_ring_begin(&ring.ring, &header, records, XP_CALL_RING_RECORDS);
	for (size_t done = 0; done < CALLS;) {
		size_t room = (size_t)random() % (random() % 2 ? 30 : 9000) + 1;
		size_t count = XP_MIN(room, CALLS - done);
		struct xp_call_range range = { .until_tsc = UINT64_MAX, .end = UINT64_MAX };

		for (size_t i = 0; i < count; i++) {
			bool swapped = !(random() % 500) && i + 1 < count;

			for (size_t j = 0; j < 1u + swapped; j++) {
				const struct xp_call *call = &calls[done + i + (swapped ? !j : 0)];
				struct xp_call_record *record = &records[header.head++ % XP_CALL_RING_RECORDS];

				assert_true(header.head <= header.limit);
				assert_int_equal(record->word, 0);
				record->time = call->tsc << XP_CALL_CPU_BITS | call->cpu;
				record->sp = call->slot - (xp_call_kind(call) != XP_EVENT_EXIT);
				record->word = call->word;
			}
			i += swapped;
		}
		done += count;
		range.now_tsc = calls[done - 1].tsc;
		assert_int_equal(xp_ring_calls_take(made->process, &ring, TID, &range), 0);
		assert_int_equal(ring.ring.next, done);
	}
	assert_int_equal(xp_processes_end_thread(&made->processes, TID), 0);
	free(records);
}

static void compare(uint64_t first_tsc, uint64_t min_ticks)
{
	struct xp_call *calls = calloc(CALLS, sizeof(*calls));
	const uint64_t late_tsc = first_tsc + 500000;
	struct made one_by_one, by_ring;
	const struct xp_counts *counts;
	struct xp_thread *thread;
	uint64_t entries = 0;

	assert_non_null(calls);
	make_calls(calls, first_tsc);
	begin(&one_by_one, min_ticks, late_tsc);
	put_one_by_one(&one_by_one, calls, late_tsc);
	begin(&by_ring, min_ticks, late_tsc);
	put_by_ring(&by_ring, calls);
	counts = &by_ring.process->sums.counts;
	thread = xp_u64_map_get(&one_by_one.processes.threads, TID);
	assert_int_equal(counts->seen, CALLS);
	assert_int_equal(counts->in_memory, CALLS);
	assert_int_equal(counts->written, thread->counts.written);
	assert_memory_equal(counts->filtered, thread->counts.filtered, sizeof(counts->filtered));
	assert_int_equal(counts->synthesized, thread->counts.synthesized);
	assert_true(counts->written > CALLS / 4 && counts->filtered[XP_FILTER_OUTSIDE] && counts->synthesized);
	assert_int_equal(by_ring.bytes, one_by_one.bytes);
	assert_memory_equal(by_ring.log, one_by_one.log, by_ring.bytes);
	/* Each entry counts for the budget, also those of the throttled function. */
	for (size_t i = 0; i < CALLS; i++)
		entries += calls[i].word - 1001 < FUNCTIONS;
	for (unsigned int i = 1; i <= FUNCTIONS; i++)
		entries -= budget[i].calls[XP_CALLS_MEMORY];
	assert_int_equal(entries, 0);
	end(&one_by_one);
	end(&by_ring);
	free(calls);
}

TEST(test_all_calls)
{
	srandom(1);
	compare(5000, 0);
	compare(WRAP - 1000000, 0);
	compare(3 * (WRAP + 1) - 1000000, 0);
}

TEST(test_short_calls)
{
	srandom(2);
	compare(5000, 300);
}

/* Only older calls are read, up to a number, and only those of the recording's time. */
TEST(test_limits)
{
	struct xp_call_record *records = calloc(XP_CALL_RING_RECORDS, sizeof(*records));
	struct xp_thread_ring ring = { 0 };
	struct xp_call_header header = { 0 };
	struct made made;
	struct xp_call_range range = { .until_tsc = 2050, .end = UINT64_MAX, .now_tsc = 9000 };

	assert_non_null(records);
	begin(&made, 0, 1000);
	xp_call_ring_begin(&ring.ring, &header, records, XP_CALL_RING_RECORDS);
	/* From 900 on: the first hundred calls are from before the sleds were attached. */
	for (uint64_t i = 0; i < 2000; i++)
		records[i] = (struct xp_call_record){ (900 + i) << XP_CALL_CPU_BITS,
						      xp_event_word(101, i % 2 ? XP_EVENT_EXIT : XP_EVENT_ENTRY),
						      5000 - !(i % 2) };
	header.head = 2000;
	assert_int_equal(xp_ring_calls_take(made.process, &ring, TID, &range), 0);
	assert_int_equal(ring.ring.next, 1150);
	range = (struct xp_call_range){ .until_tsc = UINT64_MAX, .end = 1500, .now_tsc = 9000 };
	assert_int_equal(xp_ring_calls_take(made.process, &ring, TID, &range), 0);
	assert_int_equal(ring.ring.next, 1500);
	made.processes.stop_tsc = 2599;
	range.end = UINT64_MAX;
	assert_int_equal(xp_ring_calls_take(made.process, &ring, TID, &range), 0);
	assert_int_equal(ring.ring.next, 2000);
	assert_int_equal(xp_processes_end_thread(&made.processes, TID), 0);
	assert_int_equal(made.process->sums.counts.written, 1600);
	assert_int_equal(made.process->sums.counts.filtered[XP_FILTER_OUTSIDE], 400);
	assert_int_equal(made.process->sums.counts.in_memory, 2000);
	end(&made);
	free(records);
}

/* Calls that cost more than the CPU time of the process are in the log, but not in the budget. */
TEST(test_made_up_calls)
{
	enum { TICK_NS = 100000, CALL_NS = 100, RECORDS = 16000, ROUNDS = 10 };
	struct xp_call_record *records = calloc(XP_CALL_RING_RECORDS, sizeof(*records));
	struct xp_thread_ring ring = { 0 };
	struct xp_call_header header = { 0 };
	struct made made;

	assert_non_null(records);
	begin(&made, 0, 1000);
	budget[1].memory_ns = CALL_NS;
	xp_call_accounts_keep(&made.processes.accounts, 1, TICK_NS);
	xp_call_account_trust(&made.processes.accounts, &made.process->account);
	xp_call_ring_begin(&ring.ring, &header, records, XP_CALL_RING_RECORDS);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		const uint64_t first_tsc = 2000 + round * RECORDS;
		const struct xp_call_range range = { .until_tsc = UINT64_MAX, .end = UINT64_MAX, .now_tsc = 1 << 20 };

		for (uint64_t i = 0; i < RECORDS; i++)
			records[header.head++ % XP_CALL_RING_RECORDS] =
			    (struct xp_call_record){ (first_tsc + i) << XP_CALL_CPU_BITS,
						     xp_event_word(1001, i % 2 ? XP_EVENT_EXIT : XP_EVENT_ENTRY),
						     5000 - !(i % 2) };
		assert_int_equal(xp_ring_calls_take(made.process, &ring, TID, &range), 0);
		xp_call_account_earn(&made.processes.accounts, &made.process->account, TICK_NS / 10);
	}
	assert_int_equal(xp_processes_end_thread(&made.processes, TID), 0);
	assert_int_equal(made.process->sums.counts.written, ROUNDS * RECORDS);
	assert_int_equal(budget[1].calls[XP_CALLS_MEMORY], (TICK_NS + (ROUNDS - 1) * TICK_NS / 10) / CALL_NS);
	budget[1].memory_ns = 0;
	end(&made);
	free(records);
}
