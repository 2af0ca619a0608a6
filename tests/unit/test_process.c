/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "arrivals.h"
#include "trace/process.h"
#include "xprof/wait.h"

/*
 * A process keeps its number of escapes across execs. Another process that reuses its PID does not inherit the number.
 */
TEST(test_flees_of_a_process)
{
	struct xp_target_info info = { .start_time = 5 };
	struct xp_processes processes = { 0 };
	struct xp_process *process;

	xp_processes_init(&processes);
	assert_int_equal(xp_processes_add(&processes, &process, 7, &info, 1), 0);
	process->attaching.flees = 3;
	assert_int_equal(xp_process_end(process), 0);
	assert_int_equal(xp_processes_add(&processes, &process, 7, &info, 2), 0);
	assert_int_equal(process->attaching.flees, 3);
	assert_int_equal(xp_process_end(process), 0);
	info.start_time++;
	assert_int_equal(xp_processes_add(&processes, &process, 7, &info, 3), 0);
	assert_int_equal(process->image, 3);
	assert_int_equal(process->attaching.flees, 0);
	xp_processes_free(&processes);
}

/* Tens of thousands of images are kept: each uses only the memory of its path. */
TEST(test_path_takes_its_length)
{
	struct xp_target_info info = { .exe = "/bin/true" };
	struct xp_processes processes = { 0 };
	struct xp_process *process;

	xp_processes_init(&processes);
	assert_int_equal(xp_processes_add(&processes, &process, 7, &info, 1), 0);
	assert_true(sizeof(*process) + malloc_usable_size(process->exe) < 1024);
	assert_string_equal(process->exe, "/bin/true");
	memset(info.exe, 'x', sizeof(info.exe) - 1);
	assert_int_equal(xp_process_rename(process, &info, 2), 0);
	assert_string_equal(process->exe, info.exe);
	xp_processes_free(&processes);
}

static void assert_live(const struct xp_processes *processes, const char *pids)
{
	char found[16] = "";

	for (const struct xp_process *process = processes->first_live; process; process = process->next_live) {
		assert_true(process->live);
		found[strlen(found)] = (char)process->pid;
	}
	assert_string_equal(found, pids);
}

/* Running images form a separate list, from which a walk may remove the current one. */
TEST(test_live_images)
{
	struct xp_target_info info = { 0 };
	struct xp_processes processes = { 0 };
	struct xp_process *process;

	xp_processes_init(&processes);
	for (pid_t pid = 'a'; pid <= 'f'; pid++)
		assert_int_equal(xp_processes_add(&processes, &process, pid, &info, 1), 0);
	assert_live(&processes, "abcdef");
	for (process = processes.first_live; process; process = process->next_live)
		if (process->pid != 'b' && process->pid != 'e')
			assert_int_equal(xp_process_end(process), 0);
	assert_live(&processes, "be");
	assert_int_equal(xp_process_end(processes.first), 0); /* not twice */
	assert_int_equal(xp_processes_add(&processes, &process, 'b', &info, 2), 0);
	assert_live(&processes, "eb");
	assert_int_equal(xp_processes_add(&processes, &process, 'b', &info, 3), 0);
	assert_live(&processes, "eb");
	assert_int_equal(xp_process_end(xp_processes_find(&processes, 'e')), 0);
	assert_int_equal(xp_process_end(process), 0);
	assert_live(&processes, "");
	assert_int_equal(xp_processes_add(&processes, &process, 'a', &info, 4), 0);
	assert_live(&processes, "a");
	xp_processes_free(&processes);
}

/* A long log waits for the end of the recording outside of xprof's memory. */
TEST(test_long_spool_is_written_at_the_end)
{
	const struct xp_log_info spool_info = { .pid = 7,
						.fdr_version = 1,
						.constant_tsc = true,
						.cycle_hz = 1000000000,
						.comm = "program",
						.exe = "/bin/program",
						.final_name = "program.7.fdr" };
	char place[] = "/tmp/xprof-test-process-XXXXXX";
	static uint8_t chunk[4096];
	struct xp_target_info info = { 0 };
	struct xp_processes processes = { 0 };
	struct xp_process *process;
	struct xp_fdr_enc enc;
	struct stat st;
	int dir;

	assert_non_null(mkdtemp(place));
	dir = open(place, O_RDONLY | O_DIRECTORY);
	assert_int_not_equal(dir, -1);
	xp_processes_init(&processes);
	assert_int_equal(xp_processes_add(&processes, &process, 7, &info, 1), 0);
	assert_int_equal(xp_spool_create(&process->log.spool, dir, "program.7.spool", &spool_info), 0);
	xp_fdr_enc_begin(&enc, chunk, sizeof(chunk), 1, 1);
	while (!xp_fdr_enc_function(&enc, 1, 1, 1, XP_FDR_ENTER))
		;
	while (xp_spool_bytes(process->log.spool) < 2u << 20)
		assert_int_equal(xp_spool_append(process->log.spool, 7, "thread", &enc), 0);
	assert_int_equal(fstatat(dir, "program.7.spool", &st, 0), 0);
	assert_true((uint64_t)st.st_size < xp_spool_bytes(process->log.spool));
	assert_int_equal(xp_process_end(process), 0);
	assert_int_equal(fstatat(dir, "program.7.spool", &st, 0), 0);
	assert_int_equal(st.st_size, xp_spool_bytes(process->log.spool));
	xp_processes_free(&processes);
	assert_int_equal(unlinkat(dir, "program.7.spool", 0), 0);
	close(dir);
	assert_int_equal(rmdir(place), 0);
}

#define PIDS 2000
#define IMAGES 200000
#define IMAGES_OF_A_PROCESS 10

static pid_t many_pid(size_t i)
{
	return (pid_t)(1 + i % PIDS * 512); /* some share a hash slot, at any size of the table */
}

/* As in a large build: almost all images have ended, and many processes reuse a pid. */
TEST(test_images_of_many_pids)
{
	struct xp_process **newest = calloc(PIDS, sizeof(*newest));
	struct xp_processes processes = { 0 };
	struct xp_target_info info = { 0 };
	struct xp_process *process;
	size_t count = 0;

	assert_non_null(newest);
	xp_processes_init(&processes);
	for (size_t i = 0; i < IMAGES; i++) {
		unsigned int image = i / PIDS, of_process = image % IMAGES_OF_A_PROCESS;

		info.start_time = 1 + image / IMAGES_OF_A_PROCESS;
		assert_int_equal(xp_processes_add(&processes, &process, many_pid(i), &info, i), 0);
		assert_int_equal(process->image, image + 1);
		assert_int_equal(process->attaching.flees, of_process);
		assert_int_equal(process->attaching.in_vain, 2 * of_process);
		process->attaching.flees++;
		process->attaching.in_vain += 2;
		if (newest[i % PIDS])
			assert_false(newest[i % PIDS]->live);
		newest[i % PIDS] = process;
		if (i % 3 == 0)
			assert_int_equal(xp_process_end(process), 0);
	}
	for (size_t i = 0; i < PIDS; i++)
		assert_ptr_equal(xp_processes_find(&processes, many_pid(i)), newest[i]->live ? newest[i] : NULL);
	assert_null(xp_processes_find(&processes, 2));
	for (process = processes.first; process; process = process->next, count++) {
		assert_int_equal(process->begin_tsc, count);
		assert_int_equal(process->pid, many_pid(count));
	}
	assert_int_equal(count, IMAGES);
	xp_processes_free(&processes);
	free(newest);
}

/* Programs that a process executes continue its CPU time, which is reported once, when the last program ends. */
TEST(test_cpu_time_of_a_process)
{
	struct xp_target_info info = { .start_time = 5 };
	struct xp_processes processes = { 0 };
	struct xp_process *first, *second, *gone, *other;

	xp_processes_init(&processes);
	assert_int_equal(xp_processes_add(&processes, &first, 7, &info, 1), 0);
	first->cpu.used_ns = 100;
	assert_int_equal(xp_process_end(first), 0);
	assert_int_equal(xp_processes_add(&processes, &second, 7, &info, 2), 0);
	assert_int_equal(first->cpu.used_ns, 0);
	assert_int_equal(second->cpu.used_ns, 100);
	/* The entry is removed when its next program is reported. */
	info.start_time = 0;
	assert_int_equal(xp_processes_add(&processes, &gone, 7, &info, 3), 0);
	assert_int_equal(gone->cpu.used_ns, 100);
	xp_process_ran(gone, 130);
	assert_int_equal(processes.ended_cpu_ns, 30);
	assert_int_equal(xp_process_end(gone), 0);
	/* Another process reuses its PID; its CPU time is unknown. */
	info.start_time = 6;
	assert_int_equal(xp_processes_add(&processes, &other, 7, &info, 4), 0);
	assert_int_equal(other->cpu.used_ns, 0);
	xp_process_ran(other, 1000);
	assert_int_equal(processes.ended_cpu_ns, 30);
	xp_processes_free(&processes);
}

static void record(struct xp_processes *processes, pid_t tid, uint32_t fn, uint64_t tsc)
{
	const struct xp_event event = {
		.pid = 7, .tid = (uint32_t)tid, .word = xp_event_word(fn, XP_EVENT_ENTRY), .sp = 100
	};

	assert_int_equal(xp_processes_record(processes, ARRIVAL(event, tsc)), 0);
}

/* A thread ends while a function loses its probes, before all processes have lost them: its last record is an entry. */
TEST(test_thread_that_ends_while_a_function_leaves)
{
	struct xp_function_budget budget[3] = { { 0 }, { .out_tsc = UINT64_MAX }, { .out_tsc = UINT64_MAX } };
	struct xp_sled_table table = { .function_count = 2 };
	struct xp_object object = { .table = &table, .budget = budget };
	const struct xp_sled_result sleds = { .attached = 4 };
	struct xp_target_info info = { 0 };
	struct xp_processes processes = { .stop_tsc = UINT64_MAX, .flight_bytes = 1 << 20 };
	struct xp_process *process;

	xp_processes_init(&processes);
	assert_int_equal(xp_processes_add(&processes, &process, 7, &info, 1), 0);
	assert_int_equal(xp_functions_add(&process->functions, &object, &sleds), 0);
	record(&processes, 7, 1, 10);
	record(&processes, 8, 2, 11);
	budget[1].excluded = XP_EXCLUDED_OUT;
	assert_int_equal(xp_processes_end_thread(&processes, 7), 0);
	assert_int_equal(process->sums.counts.synthesized, 1);
	/* A thread that ends inside a function that keeps its probes has never left the function. */
	assert_int_equal(xp_processes_end_thread(&processes, 8), 0);
	assert_int_equal(process->sums.counts.synthesized, 1);
	xp_processes_free(&processes);
}

/* IDs in the log of watched functions: IDs of an object follow those of the objects before it. */
TEST(test_watched_functions)
{
	struct xp_sled_table table = { .function_count = 2 };
	uint8_t watched[] = { 0, 0, 3 };
	struct xp_object plain = { .table = &table }, object = { .table = &table, .fn_base = 4, .watched = watched };
	struct xp_object last = { .table = &table, .fn_base = 8 };
	const struct xp_sled_result sleds = { .attached = 4 };
	struct xp_functions functions = { 0 };

	assert_int_equal(xp_functions_add(&functions, &plain, &sleds), 0);
	assert_null(functions.watched.by_id);
	assert_int_equal(xp_functions_add(&functions, &object, &sleds), 0);
	assert_int_equal(xp_functions_add(&functions, &last, &sleds), 0);
	assert_memory_equal(functions.watched.by_id, ((uint8_t[]){ 0, 0, 0, 0, 3, 0, 0 }), 7);
	xp_functions_free(&functions);
}

static bool may_write(struct xp_triggers *triggers, uint64_t now_tsc)
{
	return xp_triggers_ask(triggers, 1, true, 5, now_tsc) == XP_TRIGGER_WRITES;
}

/* The limit of logs applies to any minute, not to each calendar minute. */
TEST(test_limit_of_triggers)
{
	struct xp_triggers triggers;

	assert_int_equal(xp_triggers_new(&triggers, 1, 2, 60), 0);
	assert_true(may_write(&triggers, 1000));
	assert_true(may_write(&triggers, 1050));
	assert_false(may_write(&triggers, 1059));
	assert_true(may_write(&triggers, 1060));
	assert_false(may_write(&triggers, 1061));
	assert_false(may_write(&triggers, 1109));
	assert_true(may_write(&triggers, 1110));
	xp_triggers_free(&triggers);
}

static void end_slow(struct xp_thread *thread, uint64_t begin_tsc, uint64_t end_tsc)
{
	const struct xp_ended_call call = { .fn_id = 1, .begin_tsc = begin_tsc, .end_tsc = end_tsc };

	xp_process_watched_end(thread->process, thread, &call);
}

static void wait_for_cpu(struct xp_processes *processes, pid_t pid, uint64_t end_tsc, uint64_t ns)
{
	const struct xp_event_wait wait = { .head = { .pid = (uint32_t)pid, .tid = 8 }, .runnable_ns = ns };
	const struct xp_arrival arrival = { .event = &wait.head, .size = sizeof(wait), .tsc = end_tsc };

	assert_int_equal(xp_processes_note_wait(processes, &arrival), 0);
}

/* The time in which a thread had no CPU is reported, and does not make its call the slowest one. */
TEST(test_delays_of_slow_calls)
{
	const struct xp_clock clock = { .hz = 1000000000, .mono_hz = 1000000000 };
	struct xp_target_info info = { 0 };
	struct xp_processes processes = { .clock = &clock };
	uint8_t by_id[] = { 0, 1 };
	struct xp_open_call frames[] = { { .fn_id = 1 } };
	const struct xp_flight_slow_call *slow;
	struct xp_process *process;
	struct xp_thread *thread;

	assert_int_equal(xp_triggers_new(&processes.triggers, 1, 6, 1000), 0);
	processes.triggers.list[0].above_ticks = 50;
	xp_processes_init(&processes);
	assert_int_equal(xp_processes_add(&processes, &process, 7, &info, 1), 0);
	assert_int_equal(xp_processes_thread(&processes, 7, 8, &thread), 0);
	process->functions.watched.by_id = by_id;
	thread->frames = frames;

	wait_for_cpu(&processes, 7, 1010, 30); /* ten of them in the call */
	wait_for_cpu(&processes, 7, 1080, 60);
	wait_for_cpu(&processes, 6, 1090, 5); /* an earlier process with this thread */
	end_slow(thread, 1000, 1100);
	slow = process->flights.slow;
	assert_int_equal(slow->delay_ticks, 70);
	assert_int_equal(slow->calls, 1);
	end_slow(thread, 1200, 1260); /* shorter, but without delays */
	slow = process->flights.slow;
	assert_int_equal(slow->begin_tsc, 1200);
	assert_int_equal(slow->delay_ticks, 0);
	/* If there are many delays, only the newest count. */
	for (uint64_t i = 0; i < 2 * XP_DELAYS_MAX; i++)
		wait_for_cpu(&processes, 7, 2010 + 10 * i, 5);
	end_slow(thread, 2000, 2000 + 20 * XP_DELAYS_MAX);
	slow = process->flights.slow;
	assert_int_equal(slow->delay_ticks, 5 * XP_DELAYS_MAX);
	assert_int_equal(slow->calls, 3);
	assert_int_equal(processes.triggers.list[0].calls, 3);
	assert_int_equal(processes.triggers.list[0].logs, 1);
	assert_int_equal(processes.triggers.list[0].shared, 2);

	process->functions.watched.by_id = NULL;
	thread->frames = NULL;
	assert_int_equal(xp_process_end(process), 0);
	xp_processes_free(&processes);
}
