/* SPDX-License-Identifier: BSD-2-Clause */
/* The call rings of a process, of which this process plays the part: it writes records where its threads would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "sled/call_rings.h"
#include "trace/process.h"
#include "trace/process_rings.h"
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

/* A process with rings, in a file that can become shorter. cmocka has its own signal handlers before. */
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
	assert_int_equal(xp_call_rings_new(&test.rings, dup(test.fd), 0x10000, NULL), 0);
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
	xp_call_rings_begin(test.rings, TID, FS_BASE, 1);
	assert_non_null(xp_call_rings_of(test.rings, TID));
}

/* The thread reserves records, and commits the first of them. */
static void write_records(uint64_t reserved, uint64_t committed)
{
	struct xp_call_ring *ring = &xp_call_rings_of(test.rings, TID)->ring;

	for (uint64_t i = 0; i < committed; i++) {
		ring->records[i].time = xp_clock_now_tsc() << XP_CALL_CPU_BITS;
		ring->records[i].word = xp_event_word(1, XP_EVENT_ENTRY);
	}
	ring->slot->head = reserved;
}

static void test_pages_that_cannot_be_had(void **state)
{
	struct xp_call_slot *slot;

	begin(state);
	bind();
	slot = xp_call_rings_of(test.rings, TID)->ring.slot;
	write_records(100, 100);
	assert_int_equal(ftruncate(test.fd, XP_CALL_TABLE_BYTES), 0);
	assert_true(xp_processes_take_calls(&test.processes, xp_clock_now_tsc()) >= 0);
	assert_null(test.process->rings);
	assert_int_equal(slot->key, 0);
	assert_int_equal(test.process->sums.counts.seen, 100);
	assert_int_equal(test.process->sums.counts.unstored, 100);
	/* Nor does another thread get a ring. */
	xp_call_rings_begin(test.rings, TID + 1, 2 * FS_BASE, 2);
	assert_null(xp_call_rings_of(test.rings, TID + 1));
	end(state);
}

static void test_pages_that_take_too_long(void **state)
{
	begin(state);
	bind();
	write_records(40, 0);
	test.process->reading.since_tsc = xp_clock_now_tsc();
	test.process->reading.ticks = xp_clock_ticks(test.clock, 299000000);
	assert_true(xp_processes_take_calls(&test.processes, xp_clock_now_tsc()) >= 0);
	assert_non_null(test.process->rings);
	/* The same time is usual for many calls. */
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

/*
 * Records of ends were lost. Nothing is taken for a thread that does not live any more, as another one may have its
 * ring: it counts as lost. A thread that lives keeps its ring.
 */
static void test_lost_ends(void **state)
{
	uint64_t tasks_lost = 0;

	begin(state);
	test.process->pid = getpid();
	test.processes.tasks_lost = &tasks_lost;
	test.processes.dir_fd = -1;
	bind();
	xp_call_rings_begin(test.rings, getpid(), 3 * FS_BASE, 1);
	assert_true(xp_processes_take_calls(&test.processes, xp_clock_now_tsc()) >= 0);
	assert_non_null(xp_call_rings_of(test.rings, TID));
	tasks_lost = 1;
	write_records(50, 50);
	assert_true(xp_processes_take_calls(&test.processes, xp_clock_now_tsc()) >= 0);
	/* The record of its end may still be on its way. */
	assert_non_null(xp_call_rings_of(test.rings, TID));
	assert_int_equal(test.process->sums.counts.seen, 0);
	for (int i = 0; i < 3; i++)
		assert_true(xp_processes_take_calls(&test.processes, xp_clock_now_tsc()) >= 0);
	assert_null(xp_call_rings_of(test.rings, TID));
	assert_non_null(xp_call_rings_of(test.rings, getpid()));
	assert_int_equal(test.process->sums.counts.seen, 50);
	assert_int_equal(test.process->sums.counts.unstored, 50);
	end(state);
}

/* A thread gets the fs base of one whose end was lost: the calls before are those of the other one. */
static void test_birth_after_a_lost_end(void **state)
{
	struct xp_event_thread birth = { .head = { .pid = (uint32_t)getpid(), .tid = (uint32_t)getpid() },
					 .fs_base = FS_BASE,
					 .clone_flags = 0x10100 /* CLONE_THREAD | CLONE_VM */ };

	begin(state);
	test.process->pid = getpid();
	assert_int_equal(xp_u64_map_put(&test.processes.newest, (uint32_t)getpid(), test.process), 0);
	bind();
	assert_int_equal(xp_processes_begin_task(&test.processes, &birth, xp_clock_now_tsc()), 0);
	assert_null(xp_call_rings_of(test.rings, TID));
	assert_non_null(xp_call_rings_of(test.rings, getpid()));
	assert_int_equal(xp_call_rings_of(test.rings, getpid())->ring.slot->key, FS_BASE);
	end(state);
}

/* Calls that fell through are counted: those of threads without a ring, and those of full rings. */
static void test_calls_that_fell_through(void **state)
{
	struct xp_event_call call = { .head = { .pid = PID, .tid = TID }, .fell_through = 1 };

	begin(state);
	assert_int_equal(xp_processes_take_before(&test.processes, &call.head, sizeof(call), 1), 0);
	bind();
	assert_int_equal(xp_processes_take_before(&test.processes, &call.head, sizeof(call), 2), 0);
	assert_int_equal(xp_processes_take_before(&test.processes, &call.head, sizeof(call), 3), 0);
	call.fell_through = 0;
	assert_int_equal(xp_processes_take_before(&test.processes, &call.head, sizeof(call), 4), 0);
	assert_int_equal(test.process->fallen.no_ring, 1);
	assert_int_equal(test.process->fallen.full, 2);
	end(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages_that_cannot_be_had),
		cmocka_unit_test(test_pages_that_take_too_long),
		cmocka_unit_test(test_lost_ends),
		cmocka_unit_test(test_birth_after_a_lost_end),
		cmocka_unit_test(test_calls_that_fell_through),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
