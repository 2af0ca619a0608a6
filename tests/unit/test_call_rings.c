/* SPDX-License-Identifier: BSD-2-Clause */
/* The call rings of a process. This test program is the process: it writes the records of its threads. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit.h"

#include "arrivals.h"
#include "base/clock.h"
#include "base/memory_room.h"
#include "base/util.h"
#include "sled/call_rings.h"
#include "trace/process.h"
#include "trace/process_rings.h"
#include "trace/ring_calls.h"
#include "trace/thread_run.h"
#include "xprof/event.h"

#define PID 'p'
#define TID 't'
#define FS_BASE 0x7f0000001000ull

static struct test {
	struct xp_processes processes;
	struct xp_process *process;
	struct xp_clock *clock;
	struct xp_call_rings *rings;
	int fd;
} test;

/* Makes a process with rings in a file that the test can shrink. cmocka installs signal handlers before. */
static void begin(void **state)
{
	struct xp_target_info info = { .comm = "program" };

	(void)state;
	memset(&test, 0, sizeof(test));
	assert_int_equal(xp_clock_open(&test.clock), 0);
	test.processes.clock = test.clock;
	xp_processes_init(&test.processes);
	assert_int_equal(xp_processes_add(&test.processes, &test.process, PID, &info, 1), 0);
	test.fd = memfd_create("rings", MFD_CLOEXEC);
	assert_true(test.fd >= 0);
	assert_int_equal(ftruncate(test.fd, XP_CALL_RINGS_BYTES), 0);
	assert_int_equal(xp_call_rings_new(&test.rings, PID, dup(test.fd), 0x10000, NULL), 0);
	test.process->rings = xp_call_rings_share(test.rings);
}

static void end(void **state)
{
	(void)state;
	xp_processes_free(&test.processes);
	xp_call_rings_free(test.rings);
	xp_clock_free(test.clock);
	close(test.fd);
}

static void bind(void)
{
	xp_call_rings_begin(test.rings, test.process->pid, TID, FS_BASE, 1);
	assert_non_null(xp_call_rings_of(test.rings, test.process->pid, TID));
}

/* Reserves records, and commits the first of them. */
static void write_records(uint64_t reserved, uint64_t committed)
{
	struct xp_call_ring *ring = &xp_call_rings_of(test.rings, test.process->pid, TID)->ring;

	for (uint64_t i = 0; i < committed; i++) {
		ring->records[i].time = xp_clock_now_tsc() << XP_CALL_CPU_BITS;
		ring->records[i].word = xp_event_word(1, XP_EVENT_ENTRY);
	}
	ring->header->head = reserved;
}

/* Removes the pages of this file after this number of calls of madvise(). */
static struct {
	int fd;
	int calls;
} gives_back;

/* Replaces the C library's function. */
int madvise(void *start, size_t bytes, int advice)
{
	int err = (int)syscall(SYS_madvise, start, bytes, advice);

	if (gives_back.calls && !--gives_back.calls && ftruncate(gives_back.fd, 0))
		return -1;
	return err;
}

/* A process removes its pages before xprof first reads them. */
TEST(test_pages_that_go_at_first)
{
	struct xp_call_rings *rings;

	begin(state);
	gives_back.fd = memfd_create("rings", MFD_CLOEXEC);
	gives_back.calls = 1;
	assert_true(gives_back.fd >= 0);
	assert_int_equal(ftruncate(gives_back.fd, XP_CALL_RINGS_BYTES), 0);
	assert_true(xp_call_rings_new(&rings, PID, dup(gives_back.fd), 0x10000, NULL) < 0);
	assert_int_equal(gives_back.calls, 0);
	close(gives_back.fd);
	end(state);
}

TEST(test_pages_that_cannot_be_had)
{
	const uint64_t *entry;

	begin(state);
	bind();
	entry = xp_call_rings_of(test.rings, test.process->pid, TID)->entry;
	write_records(100, 100);
	assert_int_equal(ftruncate(test.fd, XP_CALL_BLOCK_BYTES + XP_CALL_HEADER_BYTES), 0);
	assert_true(xp_processes_take_calls(&test.processes, xp_clock_now_tsc()) >= 0);
	assert_null(test.process->rings);
	assert_int_equal(*entry, 0);
	assert_int_equal(test.process->sums.counts.seen, 100);
	assert_int_equal(test.process->sums.counts.unstored, 100);
	/* No other thread gets a ring, either. */
	xp_call_rings_begin(test.rings, test.process->pid, TID + 1, 2 * FS_BASE, 2);
	assert_null(xp_call_rings_of(test.rings, test.process->pid, TID + 1));
	end(state);
}

TEST(test_pages_that_take_too_long)
{
	begin(state);
	bind();
	write_records(40, 0);
	test.process->reading.since_tsc = xp_clock_now_tsc();
	test.process->reading.ticks = xp_clock_ticks(test.clock, 299000000);
	assert_true(xp_processes_take_calls(&test.processes, xp_clock_now_tsc()) >= 0);
	assert_non_null(test.process->rings);
	/* Many calls may have the same time. */
	test.process->reading.ticks = xp_clock_ticks(test.clock, 310000000);
	test.process->reading.calls = 1000000;
	assert_true(xp_processes_take_calls(&test.processes, xp_clock_now_tsc()) >= 0);
	assert_non_null(test.process->rings);
	test.process->reading.calls = 100000;
	assert_true(xp_processes_take_calls(&test.processes, xp_clock_now_tsc()) >= 0);
	assert_null(test.process->rings);
	assert_int_equal(test.process->sums.counts.unstored, 40);
	end(state);
}

static int percent_of(uint64_t records)
{
	int percent;

	begin(NULL);
	test.processes.dir_fd = -1;
	xp_call_rings_prepare(test.rings, 1);
	bind();
	write_records(records, records);
	percent = xp_processes_take_calls(&test.processes, xp_clock_now_tsc() + (1 << 20));
	end(NULL);
	return percent;
}

/* A ring that its thread finds full was full for an unknown time, so the reader must detect that. */
TEST(test_full_rings)
{
	const uint64_t full = XP_CALL_LARGE_RECORDS - XP_CALL_RING_MARGIN;
	int half = 100, nearly = 100;

	assert_int_equal(percent_of(full), 100);
	assert_int_equal(percent_of(1), 1);
	assert_int_equal(percent_of(0), 0);
	/* On a busy machine, a pass may end before all records are read: that counts as full. */
	for (int i = 0; i < 50 && half == 100; i++)
		half = percent_of(full / 2);
	for (int i = 0; i < 50 && nearly == 100; i++)
		nearly = percent_of(full - full / 100);
	assert_int_equal(half, 50);
	assert_int_equal(nearly, 99);
}

/*
 * Records of thread exits were lost. The reader reads no more records of a dead thread, because another thread may have
 * its ring: they count as lost. A living thread keeps its ring.
 */
TEST(test_lost_ends)
{
	uint64_t tasks_lost = 0;

	begin(state);
	test.process->pid = getpid();
	test.rings->tables[0] = getpid();
	test.processes.tasks_lost = &tasks_lost;
	test.processes.dir_fd = -1;
	bind();
	xp_call_rings_begin(test.rings, test.process->pid, getpid(), 3 * FS_BASE, 1);
	assert_true(xp_processes_take_calls(&test.processes, xp_clock_now_tsc()) >= 0);
	assert_non_null(xp_call_rings_of(test.rings, test.process->pid, TID));
	tasks_lost = 1;
	write_records(50, 50);
	assert_true(xp_processes_take_calls(&test.processes, xp_clock_now_tsc()) >= 0);
	/* The record of its exit may still arrive. */
	assert_non_null(xp_call_rings_of(test.rings, test.process->pid, TID));
	assert_int_equal(test.process->sums.counts.seen, 0);
	for (int i = 0; i < 3; i++)
		assert_true(xp_processes_take_calls(&test.processes, xp_clock_now_tsc()) >= 0);
	assert_null(xp_call_rings_of(test.rings, test.process->pid, TID));
	assert_non_null(xp_call_rings_of(test.rings, test.process->pid, getpid()));
	assert_int_equal(test.process->sums.counts.seen, 50);
	assert_int_equal(test.process->sums.counts.unstored, 50);
	end(state);
}

/* A thread gets the fs base of a thread whose exit was lost: the earlier calls belong to the old thread. */
TEST(test_birth_after_a_lost_end)
{
	struct xp_event_thread birth = { .head = { .pid = (uint32_t)getpid(), .tid = (uint32_t)getpid() },
					 .fs_base = FS_BASE,
					 .clone_flags = 0x10100 /* CLONE_THREAD | CLONE_VM */ };

	begin(state);
	test.process->pid = getpid();
	test.rings->tables[0] = getpid();
	assert_int_equal(xp_u64_map_put(&test.processes.newest, (uint32_t)getpid(), test.process), 0);
	bind();
	assert_int_equal(xp_processes_begin_task(&test.processes, ARRIVAL(birth, xp_clock_now_tsc())), 0);
	assert_null(xp_call_rings_of(test.rings, test.process->pid, TID));
	assert_non_null(xp_call_rings_of(test.rings, test.process->pid, getpid()));
	assert_int_equal(*xp_call_rings_of(test.rings, test.process->pid, getpid())->entry >> 8, FS_BASE);
	end(state);
}

/* The kernel recorded a call before BPF knew the ring, with a slightly late time: the ring's calls come after it. */
TEST(test_calls_before_the_ring)
{
	struct xp_event_call call = { .head = { .pid = PID, .tid = TID }, .fell_through = XP_FELL_NO_RING };
	uint64_t tsc;

	begin(state);
	bind();
	write_records(1, 1);
	tsc = xp_clock_now_tsc();
	assert_int_equal(xp_processes_record(&test.processes, ARRIVAL(call, tsc + xp_clock_ticks(test.clock, 1000))),
			 -ENOENT);
	assert_int_equal(test.process->reading.calls, 0);
	/* BPF could not read the ring's counts for this record: its time decides. */
	assert_int_equal(xp_processes_record(&test.processes, ARRIVAL(call, tsc + xp_clock_ticks(test.clock, 9000))),
			 -ENOENT);
	assert_int_equal(test.process->reading.calls, 1);
	end(state);
}

static long physical_pages; /* 0: the number of a typical machine */

/* Replaces the C library's function. */
long sysconf(int name)
{
	if (name == _SC_PAGESIZE)
		return 4096;
	assert_int_equal(name, _SC_PHYS_PAGES);
	return physical_pages ?: 1l << 20;
}

/* The rings of all processes together may use an eighth of the memory. Processes that end release theirs. */
TEST(test_memory_of_all_rings)
{
	struct xp_call_rings *other;

	begin(state);
	/* For the tables of two processes, and ten rings. */
	physical_pages = 8 * (10 * XP_CALL_BLOCK_BYTES + XP_CALL_BLOCK_BYTES / 2) / 4096;
	assert_int_equal(xp_call_rings_new(&other, PID, dup(test.fd), 0x10000, NULL), 0);
	xp_call_rings_prepare(other, 8);
	assert_int_equal(other->clean, 1 + 8);
	xp_call_rings_prepare(test.rings, 8);
	assert_int_equal(test.rings->clean, 1 + 2);
	xp_call_rings_free(other);
	xp_call_rings_prepare(test.rings, XP_CALL_RINGS_MAX);
	assert_int_equal(test.rings->clean, 1 + 10);
	physical_pages = 0;
	end(state);
}

/* Replaces the kernel's answer: the space in xprof's cgroup, and the number of queries. */
static struct {
	uint64_t bytes; /* without rings in use; 0: no limit */
	unsigned int asked;
} group;

uint64_t xp_memory_room(void)
{
	group.asked++;
	return group.bytes ? group.bytes - test.rings->clean_bytes : UINT64_MAX;
}

/* The first rings are large, if memory is ample. No two rings overlap, and none reaches a table. */
TEST(test_large_rings)
{
	const uint8_t *last;

	begin(state);
	for (pid_t i = 0; i < XP_CALL_RINGS_MAX - 1; i++) {
		uint64_t records = i < XP_CALL_LARGE_RINGS ? XP_CALL_LARGE_RECORDS : XP_CALL_RING_RECORDS;
		const struct xp_call_ring *ring;

		xp_call_rings_begin(test.rings, PID, TID + i, FS_BASE + 0x1000ull * (uint64_t)i, 1);
		ring = &xp_call_rings_of(test.rings, PID, TID + i)->ring;
		assert_int_equal(ring->mask + 1, records);
		assert_int_equal(ring->header->mask + 1, records);
		assert_true(!i || (const uint8_t *)ring->header >= last);
		last = (const uint8_t *)(ring->records + records);
	}
	assert_true(last <= test.rings->memory + XP_CALL_TABLES);
	xp_call_rings_begin(test.rings, PID, TID - 1, FS_BASE - 0x1000, 1);
	assert_null(xp_call_rings_of(test.rings, PID, TID - 1));
	end(state);
}

/* A thread that starts during the recording gets a part of its ring at first, and more when it has used half of that.
 */
TEST(test_rings_grow)
{
	struct xp_call_ring *ring;

	begin(state);
	test.processes.dir_fd = -1;
	bind();
	ring = &xp_call_rings_of(test.rings, PID, TID)->ring;
	for (uint64_t ready = XP_CALL_RING_RECORDS, used = 0; ready <= ring->mask; ready *= 2) {
		assert_int_equal(ring->ready, ready);
		assert_int_equal(ring->header->limit, ready - XP_CALL_RING_MARGIN);
		for (; used < ready / 2; used++) {
			ring->records[used].time = xp_clock_now_tsc() << XP_CALL_CPU_BITS;
			ring->records[used].word = xp_event_word(1, XP_EVENT_ENTRY);
		}
		ring->header->head = used;
		for (int i = 0; i < 1000 && ring->ready == ready; i++)
			assert_true(xp_processes_take_calls(&test.processes, xp_clock_now_tsc() + (1 << 20)) >= 0);
	}
	assert_int_equal(ring->ready, XP_CALL_LARGE_RECORDS);
	assert_int_equal(ring->header->limit, ring->next + XP_CALL_LARGE_RECORDS - XP_CALL_RING_MARGIN);
	end(state);
}

/* The next thread with a ring finds nothing that an earlier one left there. */
TEST(test_ring_is_used_again)
{
	struct xp_call_ring *ring;

	begin(state);
	xp_call_rings_prepare(test.rings, 1);
	bind();
	write_records(70000, 70000);
	xp_call_rings_leave(test.rings, PID, true);
	test.rings->tables[0] = PID;
	bind();
	ring = &xp_call_rings_of(test.rings, PID, TID)->ring;
	for (uint64_t i = 0; i <= ring->mask; i++)
		assert_int_equal(ring->records[i].word, 0);
	end(state);
}

/*
 * Rings may use a quarter of the space beyond 32 MiB. xprof asks the kernel once for many rings, and subtracts their
 * size. Later, it asks again.
 */
TEST(test_room_in_the_control_group)
{
	uint64_t begin_ns;

	begin(state);
	usleep(20000);
	group.bytes = (32u << 20) + 3 * XP_CALL_TABLE_BYTES + (4 * 4 + 2) * XP_CALL_BLOCK_BYTES;
	group.asked = 0;
	begin_ns = xp_now_ns();
	xp_call_rings_prepare(test.rings, 8);
	assert_int_equal(test.rings->clean, 1 + 5);
	assert_in_range(group.asked, 1, 1 + (xp_now_ns() - begin_ns) / 10000000);
	group.bytes = 0;
	usleep(20000);
	xp_call_rings_prepare(test.rings, 8);
	assert_int_equal(test.rings->clean, 1 + 8);
	end(state);
}

/* ---- A process that forges its records ---- */

#define DEPTH (XP_FRAMES_MAX - 1)
#define FUNCTION 101u

static struct xp_sled_table table = { .function_count = 5 };
static struct xp_object object = { .table = &table, .fn_base = 100 };

static int discard_chunk(void *arg, struct xp_thread *thread)
{
	(void)arg;
	(void)thread;
	return 0;
}

static void begin_functions(void **state)
{
	const struct xp_sled_result sleds = { .attached = 2 };

	begin(state);
	test.process->thread_options.sink = discard_chunk;
	test.process->thread_options.synthesized = NULL;
	assert_int_equal(xp_functions_add(&test.process->functions, &object, &sleds), 0);
}

/* Slow-path calls count once: those of threads without a ring, and those of full rings. */
TEST(test_calls_that_fell_through)
{
	struct xp_event_call call = { .head = { .pid = PID, .tid = TID, .word = FUNCTION },
				      .fell_through = XP_FELL_NO_RING };
	struct xp_event_call unknown = call;

	begin_functions(state);
	assert_int_equal(xp_processes_record(&test.processes, ARRIVAL(call, 1)), 0);
	bind();
	/* Before the thread had that ring. */
	assert_int_equal(xp_processes_record(&test.processes, ARRIVAL(call, 2)), 0);
	call.fell_through = XP_FELL_FULL;
	assert_int_equal(xp_processes_record(&test.processes, ARRIVAL(call, 3)), 0);
	/* A call of an unknown object is reported again. */
	unknown.head.word = 7;
	assert_int_equal(xp_processes_record(&test.processes, ARRIVAL(unknown, 4)), -ENOENT);
	call.fell_through = XP_FELL_NOT;
	assert_int_equal(xp_processes_record(&test.processes, ARRIVAL(call, 4)), 0);
	assert_int_equal(test.process->fallen.no_ring, 2);
	assert_int_equal(test.process->fallen.full, 1);
	end(state);
}

/* Its thread has the maximum depth. */
static struct xp_call_ring *begin_made_up(void **state)
{
	struct xp_thread *thread;

	begin_functions(state);
	xp_call_rings_prepare(test.rings, 1);
	bind();
	assert_int_equal(xp_processes_thread(&test.processes, PID, TID, &thread), 0);
	for (uint32_t i = 0; i < DEPTH; i++)
		assert_int_equal(xp_thread_put(thread, &(struct xp_call){ i, xp_event_word(1, XP_EVENT_ENTRY),
									  0x40000000 - i, .cpu = 0 }),
				 0);
	return &xp_call_rings_of(test.rings, test.process->pid, TID)->ring;
}

/* Fills a part of the ring with exits of calls that never started. Returns their number. */
static uint64_t make_up(struct xp_call_ring *ring, uint64_t room)
{
	uint64_t now_tsc = xp_clock_now_tsc() & (UINT64_MAX >> XP_CALL_CPU_BITS), count = 0;

	for (; ring->header->head - ring->next < room; ring->header->head++, count++) {
		struct xp_call_record *record = &ring->records[ring->header->head & ring->mask];

		*record = (struct xp_call_record){ now_tsc << XP_CALL_CPU_BITS, xp_event_word(FUNCTION, XP_EVENT_EXIT),
						   0x70000000 };
	}
	return count;
}

static void assert_counted(uint64_t records)
{
	const struct xp_counts *counts;

	assert_int_equal(xp_processes_end_thread(&test.processes, TID), 0);
	counts = &test.process->sums.counts;
	assert_int_equal(counts->seen, records);
	assert_int_equal(counts->seen, counts->written + xp_counts_filtered(counts) + counts->unstored);
}

/* A pass ends after a maximum of work, in the middle of a ring. xprof gives up a process that causes that much work. */
TEST(test_made_up_calls)
{
	struct xp_call_ring *ring = begin_made_up(state);
	uint64_t made = 0, frames = 0;
	unsigned int turns = 0;

	for (; test.process->rings && turns < 500; turns++) {
		made += make_up(ring, ring->mask + 1);
		frames = test.process->reading.frames;
		test.process->reading.since_tsc = xp_clock_now_tsc();
		assert_in_range(xp_processes_take_calls(&test.processes, xp_clock_now_tsc() + (1 << 20)), 0, 100);
		assert_in_range(test.process->reading.frames - frames, 0, 2 * XP_RING_WORK);
	}
	assert_in_range(turns, 2, 499);
	assert_counted(DEPTH + made);
	end(state);
}

/* BPF records give the process no additional passes. Records that were not read at the end are lost. */
TEST(test_made_up_calls_before_records)
{
	const struct xp_event_call call = { .head = { .pid = PID, .tid = TID } };
	struct xp_call_ring *ring = begin_made_up(state);
	uint64_t made = 0, tsc = xp_clock_now_tsc() * 2;

	test.process->reading.since_tsc = xp_clock_now_tsc();
	for (unsigned int i = 0; i < 10; i++) {
		made += make_up(ring, ring->mask + 1);
		assert_int_equal(xp_processes_record(&test.processes, ARRIVAL(call, tsc)), -ENOENT);
	}
	assert_in_range(test.process->reading.frames, XP_RING_WORK / 2, 2 * XP_RING_WORK);
	assert_non_null(test.process->rings);
	test.process->reading.frames = 0;
	assert_int_equal(xp_process_end_calls(test.process), 0);
	assert_in_range(test.process->reading.frames, 0, 2 * XP_RING_WORK);
	assert_counted(DEPTH + made);
	end(state);
}
