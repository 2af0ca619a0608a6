/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that use one fs base, and so one call ring, one after the other: each gets its own calls, however late the
 * records of starts and exits are read, and with any times in them. This process writes the records.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

#include "arrivals.h"
#include "base/clock.h"
#include "sled/call_rings.h"
#include "trace/process.h"
#include "trace/process_rings.h"
#include "xprof/event.h"

#define PID 'p'
#define TID 1000 /* TID of the first thread; the others follow */
#define FS_BASE 0x7f0000001000ull
#define FN_BASE 100
#define CLONE_FLAGS 0x10100 /* CLONE_THREAD | CLONE_VM */
#define LAG_NS 1000000	    /* how much too early BPF's times are, where a counter has lost ticks */
#define MIN_NS 10000000000ull

static struct xp_sled_table table = { .function_count = 1 };
static struct xp_object object = { .table = &table, .fn_base = FN_BASE };

static struct test {
	struct xp_processes processes;
	struct xp_process *process;
	struct xp_clock *clock;
	struct xp_call_rings *rings;
	uint64_t lag;
} test;

static int discard(void *arg, struct xp_thread *thread)
{
	(void)arg;
	(void)thread;
	return 0;
}

static void ignore(void *arg, uint32_t fn_id)
{
	(void)arg;
	(void)fn_id;
}

static void begin(bool drops_short)
{
	const struct xp_sled_result sleds = { .attached = 2, .begin_tsc = 1 };
	struct xp_target_info info = { .comm = "program" };
	int fd = memfd_create("rings", MFD_CLOEXEC);

	memset(&test, 0, sizeof(test));
	assert_int_equal(xp_clock_open(&test.clock), 0);
	test.lag = xp_clock_ticks(test.clock, LAG_NS);
	test.processes.clock = test.clock;
	test.processes.min_ticks = drops_short ? xp_clock_ticks(test.clock, MIN_NS) : 0;
	xp_processes_init(&test.processes);
	test.processes.dir_fd = -1;
	assert_int_equal(xp_processes_add(&test.processes, &test.process, PID, &info, 1), 0);
	test.process->thread_options.sink = discard;
	test.process->thread_options.synthesized = ignore;
	assert_int_equal(xp_functions_add(&test.process->functions, &object, &sleds), 0);
	assert_int_equal(ftruncate(fd, XP_CALL_RINGS_BYTES), 0);
	assert_int_equal(xp_call_rings_new(&test.rings, PID, fd, 0x10000, NULL), 0);
	test.rings->min_ticks = test.processes.min_ticks;
	test.process->rings = xp_call_rings_share(test.rings);
}

static void end(void)
{
	xp_processes_free(&test.processes);
	xp_call_rings_free(test.rings);
	xp_clock_free(test.clock);
}

static struct xp_call_ring *ring(void)
{
	return &xp_call_rings_at(test.rings, PID, FS_BASE)->ring;
}

static void write_call(enum xp_event_kind kind)
{
	struct xp_call_ring *to = ring();
	struct xp_call_record *record = &to->records[to->header->head++ & to->mask];

	record->time = xp_clock_now_tsc() << XP_CALL_CPU_BITS;
	record->sp = kind == XP_EVENT_ENTRY ? 0x1000 : 0x1001;
	record->word = xp_event_word(FN_BASE + 1, kind);
}

static void write_calls(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		write_call(XP_EVENT_ENTRY);
		write_call(XP_EVENT_EXIT);
	}
}

/* Makes BPF's record at this moment. is_known: BPF could read the ring's counts. */
struct moment {
	uint64_t tsc;
	xp_event_position position;
	uint32_t taken_back;
};

static struct moment now(bool is_known)
{
	return (struct moment){ .tsc = xp_clock_now_tsc() - test.lag,
				.position = is_known ? (uint32_t)ring()->header->head + 1 : 0,
				.taken_back = is_known ? (uint32_t)ring()->header->taken_back : 0 };
}

static void tell_birth(pid_t tid, struct moment at)
{
	const struct xp_event_thread event = { .head = { .pid = PID, .tid = (uint32_t)tid },
					       .fs_base = FS_BASE,
					       .clone_flags = CLONE_FLAGS,
					       .position = at.position,
					       .taken_back = at.taken_back };

	assert_int_equal(xp_processes_begin_task(&test.processes, ARRIVAL(event, at.tsc)), 0);
}

static void tell_end(pid_t tid, struct moment at)
{
	const struct xp_event_task event = { .head = { .pid = PID, .tid = (uint32_t)tid },
					     .position = at.position,
					     .taken_back = at.taken_back };

	assert_int_equal(xp_processes_end_calls(&test.processes, ARRIVAL(event, at.tsc)), 0);
	assert_int_equal(xp_processes_end_thread(&test.processes, tid), 0);
}

/* Checks the records of a thread, of all threads with its TID, and its missing exits. */
static struct xp_counts counts_of(pid_t tid)
{
	struct xp_counts sum = { 0 };

	for (size_t i = 0; i < test.process->sums.summary_count; i++)
		if (test.process->sums.summaries[i].tid == tid)
			xp_counts_add(&sum, &test.process->sums.summaries[i].counts);
	return sum;
}

static void tell_first_birth(void)
{
	const struct xp_event_thread event = { .head = { .pid = PID, .tid = TID },
					       .fs_base = FS_BASE,
					       .clone_flags = CLONE_FLAGS };

	assert_int_equal(xp_processes_begin_task(&test.processes, ARRIVAL(event, xp_clock_now_tsc() - 10 * test.lag)),
			 0);
}

#define THREADS 8

/* Threads start and exit while the ring is not read. BPF's records of them are read afterwards. */
static void run_threads(bool ends_are_known)
{
	struct moment births[THREADS], ends[THREADS];

	tell_first_birth();
	for (unsigned int i = 0; i < THREADS; i++) {
		if (i)
			births[i] = now(true);
		write_calls(i + 1);
		ends[i] = now(ends_are_known);
	}
	for (unsigned int i = 0; i < THREADS; i++) {
		/* The start and exit of a thread are in order, at any delay. */
		if (i)
			tell_birth(TID + (pid_t)i, births[i]);
		tell_end(TID + (pid_t)i, ends[i]);
	}
}

static void assert_each_has_its_own(unsigned int last)
{
	for (unsigned int i = 0; i <= last; i++)
		assert_int_equal(counts_of(TID + (pid_t)i).seen, 2 * (i + 1));
}

TEST(test_late_reader)
{
	for (int drops_short = 0; drops_short < 2; drops_short++) {
		begin(drops_short);
		run_threads(true);
		assert_each_has_its_own(THREADS - 1);
		end();
	}
}

/*
 * BPF cannot read the memory of a thread that has released it (Linux before 6.16): the record of the next start has the
 * number.
 */
TEST(test_ends_without_a_number)
{
	for (int drops_short = 0; drops_short < 2; drops_short++) {
		begin(drops_short);
		run_threads(false);
		assert_each_has_its_own(THREADS - 2);
		end();
	}
}

/*
 * The start of a thread is read before the exit of the previous thread with this fs base: the counter of one CPU has
 * lost more ticks.
 */
TEST(test_birth_before_an_end)
{
	struct moment first, second;

	begin(false);
	tell_first_birth();
	write_calls(3);
	first = now(true);
	second = now(true);
	write_calls(5);
	tell_birth(TID + 1, second);
	tell_end(TID, first);
	tell_end(TID + 1, now(true));
	assert_int_equal(counts_of(TID).seen, 6);
	assert_int_equal(counts_of(TID + 1).seen, 10);
	end();
}

/* A number that was read in a ring is not valid for the next ring of the same fs base. */
TEST(test_number_of_an_earlier_ring)
{
	struct moment birth, gone;

	begin(false);
	tell_first_birth();
	write_calls(100);
	tell_end(TID, now(true));
	/* The thread makes no call, and exits. */
	birth = now(true);
	gone = now(true);
	for (int i = 0; i < 3; i++)
		assert_true(xp_processes_take_calls(&test.processes, xp_clock_now_tsc()) >= 0);
	assert_null(xp_call_rings_at(test.rings, PID, FS_BASE));
	tell_birth(TID + 1, birth);
	write_calls(4); /* of the thread after it */
	tell_end(TID + 1, gone);
	tell_birth(TID + 2, gone);
	tell_end(TID + 2, now(true));
	assert_int_equal(counts_of(TID + 1).seen, 0);
	assert_int_equal(counts_of(TID + 2).seen, 8);
	end();
}

/* Calls that the next thread discards do not count for the thread before, whose exit has not been read yet. */
TEST(test_taken_back_by_the_next)
{
	struct xp_event_call call = { .head = { .pid = PID, .tid = TID } };
	struct moment birth, gone;
	struct xp_thread *thread;

	begin(true);
	tell_first_birth();
	for (pid_t tid = TID; tid <= TID + 1; tid++)
		assert_int_equal(xp_processes_thread(&test.processes, PID, tid, &thread), 0);
	ring()->taken_back_tsc = 1;
	ring()->header->taken_back = 3;
	gone = now(true);
	birth = now(true);
	ring()->header->taken_back = 3 + 40;
	write_calls(1);
	call.position = gone.position;
	assert_int_equal(xp_processes_record(&test.processes, ARRIVAL(call, gone.tsc)), -ENOENT);
	assert_true(xp_processes_take_calls(&test.processes, gone.tsc) >= 0);
	tell_end(TID, gone);
	tell_birth(TID + 1, birth);
	/* Discarded calls of a thread that continues are counted one pass later. */
	for (int i = 0; i < 2; i++)
		assert_true(xp_processes_take_calls(&test.processes, xp_clock_now_tsc()) >= 0);
	assert_in_range(thread->counts.filtered[XP_FILTER_MIN_DURATION], 2 * 40, 2 * (40 + 1));
	tell_end(TID + 1, now(true));
	assert_int_equal(counts_of(TID).filtered[XP_FILTER_MIN_DURATION], 2 * 3);
	assert_int_equal(counts_of(TID + 1).filtered[XP_FILTER_MIN_DURATION], 2 * (40 + 1));
	end();
}
