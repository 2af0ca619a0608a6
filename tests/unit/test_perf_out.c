// SPDX-License-Identifier: BSD-2-Clause
/* Records about processes, for hand-made samples and events; read back from the file. */
#include "sample/perf_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "format/perfdata_reader.h"
#include "check/perfdata_rules.h"
#include "sample/perf_threads.h"

#define HZ 1000000000ull
#define PROGRAM "/nowhere/program"
#define NOBODY 4194305 /* above the kernel's PID_MAX_LIMIT: /proc has no such process */

static struct {
	char dir[64];
	int dir_fd;
	struct xp_clock clock;
	struct xp_sampled_processes processes;
	struct xp_perf_out *out;
	/* The records of the finished file except the kernel's, one per line. */
	char lines[16384];
} world;

static int setup_with(bool switches)
{
	struct xp_perf_out_options options = {
		.clock = &world.clock,
		.processes = &world.processes,
		.event = "cpu-clock",
		.period = 1000000,
		.compression = XP_PERF_OUT_NONE,
		.switches = switches,
		.late_ns = HZ,
	};

	memset(&world, 0, sizeof(world));
	strcpy(world.dir, "/tmp/perf_out.XXXXXX");
	assert_non_null(mkdtemp(world.dir));
	world.dir_fd = options.dir_fd = open(world.dir, O_RDONLY | O_DIRECTORY);
	world.clock.hz = world.clock.mono_hz = HZ;
	world.clock.mono = world.clock.real = (struct xp_clock_pair){ .tsc = 1000000, .ns = 1000000 };
	assert_int_equal(xp_perf_out_new(&world.out, &options), 0);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return setup_with(false);
}

static int setup_switches(void **state)
{
	(void)state;
	return setup_with(true);
}

static int teardown(void **state)
{
	(void)state;
	xp_perf_out_free(world.out);
	xp_sampled_processes_free(&world.processes);
	unlinkat(world.dir_fd, XP_PERF_DATA_NAME, 0);
	close(world.dir_fd);
	return rmdir(world.dir);
}

/* As run.c does. */
static void tell(const struct xp_sideband_event *event)
{
	xp_perf_out_before(world.out, event, xp_sampled_processes_space(&world.processes, event->pid));
	assert_int_equal(xp_sampled_processes_event(&world.processes, event), 0);
	xp_perf_out_event(world.out, event, xp_sampled_processes_space(&world.processes, event->pid));
}

static void map(uint64_t tsc, pid_t pid, uint64_t start, uint64_t length, char *path)
{
	struct xp_sideband_event event = { .tsc = tsc,
					   .kind = XP_SIDEBAND_MMAP,
					   .pid = pid,
					   .tid = pid,
					   .start = start,
					   .length = length,
					   .dev = 0x801,
					   .inode = 42,
					   .generation = 77,
					   .text = path };

	if (path[1] == '/')
		event.inode = event.dev = event.generation = 0;
	tell(&event);
}

static void name(uint64_t tsc, enum xp_sideband_kind kind, pid_t pid, pid_t tid, char *text)
{
	tell(&(struct xp_sideband_event){ .tsc = tsc, .kind = kind, .pid = pid, .tid = tid, .text = text });
}

static void task(uint64_t tsc, enum xp_sideband_kind kind, pid_t pid, pid_t tid, pid_t ppid)
{
	tell(&(struct xp_sideband_event){ .tsc = tsc, .kind = kind, .pid = pid, .tid = tid, .ppid = ppid });
}

static void sample(uint64_t tsc, pid_t pid, pid_t tid, const char *comm)
{
	struct xp_event_sample record = { .head = { .pid = pid, .tid = tid }, .kernel_frames = 1 };
	const struct xp_frame frames[] = { { .address = 0xffffffff81000010 }, { .address = 0x1010 } };
	struct xp_sampled_process *known;

	memcpy(record.comm, comm, strlen(comm));
	assert_int_equal(xp_sampled_processes_sampled(&world.processes, pid, comm, &known), 0);
	xp_perf_out_seen(world.out, &record, tsc, 2, known->space);
	xp_perf_out_sample(world.out, &(struct xp_perf_out_sampled){ &record, tsc, 3, NULL, NULL }, frames, 2);
}

/* The switch happens on CPU tsc % 4. thread 0: to no thread of the process. */
static void switches(uint64_t tsc, pid_t out, uint32_t flags, pid_t in)
{
	const struct xp_event_switch event = {
		.head = { .pid = out ? NOBODY : 0, .tid = out, .word = xp_event_word(flags, XP_EVENT_SWITCH) },
		.next_pid = in ? NOBODY : 0,
		.next_tid = in,
	};

	xp_perf_out_switch(world.out, &(struct xp_arrival){ .event = &event.head, .cpu = tsc % 4, .tsc = tsc });
}

static void print(FILE *out, const struct xp_perfdata_record *record)
{
	const unsigned long long ns = record->time_ns;

	switch (record->type) {
	case PERF_RECORD_MMAP2:
		fprintf(out, "%llu map %d %llx+%llx %s%s\n", ns, record->map.pid, (unsigned long long)record->map.start,
			(unsigned long long)record->map.bytes, record->map.path,
			record->map.generation == 77 ? " 77" : "");
		break;
	case PERF_RECORD_COMM:
		fprintf(out, "%llu %s %d/%d %s\n", ns, record->misc & PERF_RECORD_MISC_COMM_EXEC ? "exec" : "comm",
			record->comm.pid, record->comm.tid, record->comm.name);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		fprintf(out, "%llu %s %d/%d of %d at %llu\n", ns, record->type == PERF_RECORD_FORK ? "fork" : "exit",
			record->task.pid, record->task.tid, record->task.ppid,
			(unsigned long long)record->task.time_ns);
		break;
	case PERF_RECORD_SWITCH:
		fprintf(out, "%llu %s%s %d/%d cpu %u\n", ns, record->misc & PERF_RECORD_MISC_SWITCH_OUT ? "out" : "in",
			record->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT ? ", preempted," : "", record->pid,
			record->tid, record->cpu);
		break;
	case PERF_RECORD_SAMPLE:
		fprintf(out, "%llu sample %d/%d cpu %u, %llu entries\n", ns, record->pid, record->tid, record->cpu,
			(unsigned long long)record->sample.chain_count);
		break;
	}
}

/* Ends the file and compares its records with the expected lines. */
static void assert_told(const char *expected)
{
	struct xp_violation violation = { .text = "" };
	struct xp_perfdata_reader reader;
	struct xp_perfdata_record record;
	static uint8_t bytes[1 << 20];
	FILE *out = fmemopen(world.lines, sizeof(world.lines), "w");
	int fd, more;
	ssize_t size;

	assert_int_equal(xp_perf_out_finish(world.out), 0);
	fd = openat(world.dir_fd, XP_PERF_DATA_NAME, O_RDONLY);
	size = read(fd, bytes, sizeof(bytes));
	close(fd);
	assert_int_equal(size, xp_perf_out_counts(world.out).bytes);
	assert_int_equal(xp_perfdata_reader_init(&reader, bytes, size, &violation), 0);
	while ((more = xp_perfdata_reader_next(&reader, &record, &violation)) == 1)
		print(out, &record);
	fclose(out);
	assert_string_equal(violation.text, "");
	assert_false(xp_perfdata_rules_check(bytes, size, &violation));
	assert_string_equal(world.lines, expected);
}

/* A process is written with its first sample, and updated after it. */
TEST_WITH(test_process, setup, teardown)
{
	name(10, XP_SIDEBAND_EXEC, 7, 7, "unseen");
	map(11, 7, 0x1000, 0x1000, PROGRAM);
	sample(100, 7, 7, "program");
	map(110, 7, 0x4000, 0x2000, "/nowhere/library.so");
	task(120, XP_SIDEBAND_FORK, 7, 8, 7);
	sample(130, 7, 8, "program");
	name(140, XP_SIDEBAND_COMM, 7, 8, "worker");
	sample(150, 7, 8, "worker");
	sample(160, 7, 8, "wo\033ker");
	task(170, XP_SIDEBAND_EXIT, 7, 8, 1);
	name(180, XP_SIDEBAND_EXEC, 7, 7, "next");
	map(181, 7, 0x9000, 0x1000, "/nowhere/next");
	sample(190, 7, 7, "next");
	map(200, 6, 0x1000, 0x1000, PROGRAM); /* never sampled */
	task(210, XP_SIDEBAND_EXIT, 6, 6, 1);
	assert_told("98 map 7 1000+1000 " PROGRAM " 77\n"
		    "98 comm 7/7 program\n"
		    "100 sample 7/7 cpu 3, 4 entries\n"
		    "110 map 7 4000+2000 /nowhere/library.so 77\n"
		    "120 fork 7/8 of 7 at 120\n"
		    "128 comm 7/8 program\n"
		    "130 sample 7/8 cpu 3, 4 entries\n"
		    "140 comm 7/8 worker\n"
		    "150 sample 7/8 cpu 3, 4 entries\n"
		    "158 comm 7/8 wo?ker\n"
		    "160 sample 7/8 cpu 3, 4 entries\n"
		    "170 exit 7/8 of 1 at 170\n"
		    "180 exec 7/7 next\n"
		    "181 map 7 9000+1000 /nowhere/next 77\n"
		    "190 sample 7/7 cpu 3, 4 entries\n");
	assert_int_equal(xp_perf_out_counts(world.out).samples, 5);
}

/* A child is written with its own first sample and its own mappings. A PID may be reused. */
TEST_WITH(test_children, setup, teardown)
{
	name(10, XP_SIDEBAND_EXEC, 7, 7, "sh");
	map(11, 7, 0x1000, 0x1000, PROGRAM);
	task(20, XP_SIDEBAND_FORK, 9, 9, 7);
	task(21, XP_SIDEBAND_FORK, 10, 10, 7);
	sample(30, 9, 9, "sh");
	task(40, XP_SIDEBAND_EXIT, 9, 9, 7);
	task(50, XP_SIDEBAND_FORK, 9, 9, 7);
	sample(60, 9, 9, "sh");
	assert_told("28 fork 9/9 of 7 at 20\n"
		    "28 map 9 1000+1000 " PROGRAM " 77\n"
		    "28 comm 9/9 sh\n"
		    "30 sample 9/9 cpu 3, 4 entries\n"
		    "40 exit 9/9 of 7 at 40\n"
		    "58 fork 9/9 of 7 at 50\n"
		    "58 map 9 1000+1000 " PROGRAM " 77\n"
		    "58 comm 9/9 sh\n"
		    "60 sample 9/9 cpu 3, 4 entries\n");
}

/* Events were lost. */
TEST_WITH(test_forget, setup, teardown)
{
	name(10, XP_SIDEBAND_EXEC, 7, 7, "program");
	map(11, 7, 0x1000, 0x1000, PROGRAM);
	sample(100, 7, 7, "program");
	xp_perf_out_forget(world.out);
	map(110, 7, 0x4000, 0x2000, "/nowhere/library.so");
	sample(120, 7, 7, "program");
	sample(130, 7, 7, "program");
	assert_told("98 map 7 1000+1000 " PROGRAM " 77\n"
		    "98 comm 7/7 program\n"
		    "100 sample 7/7 cpu 3, 4 entries\n"
		    "118 map 7 1000+1000 " PROGRAM " 77\n"
		    "118 map 7 4000+2000 /nowhere/library.so 77\n"
		    "120 sample 7/7 cpu 3, 4 entries\n"
		    "130 sample 7/7 cpu 3, 4 entries\n");
}

/* JIT memory is written with its own time, sampled or not, and only where no memory was before. */
TEST_WITH(test_jit_memory, setup, teardown)
{
	name(10, XP_SIDEBAND_EXEC, 7, 7, "node");
	map(20, 7, 0x10000, 0x1000, "//anon");
	map(21, 7, 0x10000, 0x1000, "//anon"); /* its protection changed */
	map(22, 7, 0x10000, 0x3000, "//anon"); /* it grew at the end */
	map(23, 7, 0x18000, 0x1000, "//anon");
	map(24, 7, 0xf000, 0xb000, "//anon"); /* before, between and after */
	map(25, 7, 0x11000, 0x1000, PROGRAM);
	map(26, 7, 0x10000, 0x3000, "//anon"); /* over the program */
	assert_told("20 map 7 10000+1000 //anon\n"
		    "22 map 7 11000+2000 //anon\n"
		    "23 map 7 18000+1000 //anon\n"
		    "24 map 7 f000+1000 //anon\n"
		    "24 map 7 13000+5000 //anon\n"
		    "24 map 7 19000+1000 //anon\n"
		    "26 map 7 11000+1000 //anon\n");
}

/*
 * A child has its parent's JIT memory from its creation on. Memory that is older than the first record precedes all
 * records.
 */
TEST_WITH(test_jit_memory_of_children, setup, teardown)
{
	xp_sampled_processes_event(
	    &world.processes,
	    &(struct xp_sideband_event){
		.kind = XP_SIDEBAND_MMAP, .pid = 6, .tid = 6, .start = 0x70000, .length = 0x1000, .text = "//anon" });
	map(20, 7, 0x10000, 0x1000, "//anon");
	map(21, 7, 0x1000, 0x1000, PROGRAM);
	task(30, XP_SIDEBAND_FORK, 8, 8, 7);
	sample(40, 8, 8, "php");
	assert_told("0 map 6 70000+1000 //anon\n"
		    "20 map 7 10000+1000 //anon\n"
		    "30 fork 8/8 of 7 at 30\n"
		    "30 map 8 10000+1000 //anon\n"
		    "38 map 8 1000+1000 " PROGRAM " 77\n"
		    "38 comm 8/8 php\n"
		    "40 sample 8/8 cpu 3, 4 entries\n");
}

/* The switches of each thread alternate, even if some were lost. */
TEST_WITH(test_switches, setup_switches, teardown)
{
	switches(100, 8, 0, 7); /* 8 ran before */
	switches(105, 7, XP_SWITCH_RUNNABLE, 0);
	switches(110, 0, 0, 8);
	switches(113, 0, 0, 8);		/* the thread left its CPU unseen */
	sample(115, NOBODY, 9, "main"); /* the thread runs */
	sample(117, NOBODY, 9, "main");
	switches(120, 9, 0, 10);
	sample(125, NOBODY, 9, "main");		/* while it was leaving */
	assert_told("100 out 4194305/8 cpu 0\n" /* perf expects this switch first */
		    "100 in 4194305/8 cpu 0\n"
		    "100 out 4194305/8 cpu 0\n"
		    "100 in 4194305/7 cpu 0\n"
		    "105 out, preempted, 4194305/7 cpu 1\n"
		    "110 in 4194305/8 cpu 2\n"
		    "113 out 4194305/8 cpu 2\n"
		    "113 in 4194305/8 cpu 1\n"
		    "113 comm 4194305/9 main\n"
		    "113 in 4194305/9 cpu 2\n"
		    "115 sample 4194305/9 cpu 3, 4 entries\n"
		    "117 sample 4194305/9 cpu 3, 4 entries\n"
		    "120 out 4194305/9 cpu 0\n"
		    "120 in 4194305/10 cpu 0\n"
		    "125 sample 4194305/9 cpu 3, 4 entries\n");
}

/* A thread that has ended, or whose TID was reused, has no CPU. */
TEST_WITH(test_switches_at_ends, setup_switches, teardown)
{
	switches(100, 0, 0, 7);
	switches(101, 0, 0, 8);
	switches(102, 0, 0, 9);
	task(110, XP_SIDEBAND_EXIT, NOBODY, 9, 1);
	switches(111, 9, XP_SWITCH_DEAD, 0);		/* as already written */
	switches(112, 7, XP_SWITCH_DEAD, 0);		/* not yet written */
	name(120, XP_SIDEBAND_EXEC, NOBODY, 7, "next"); /* by thread 8 */
	switches(130, 7, 0, 0);
	assert_told("100 out 4194305/7 cpu 0\n"
		    "100 in 4194305/7 cpu 0\n"
		    "101 in 4194305/8 cpu 1\n"
		    "102 in 4194305/9 cpu 2\n"
		    "110 out 4194305/9 cpu 2\n"
		    "112 out 4194305/7 cpu 0\n"
		    "120 out 4194305/8 cpu 1\n"
		    "130 in 4194305/7 cpu 2\n"
		    "130 out 4194305/7 cpu 2\n");
}

TEST(test_threads)
{
	struct xp_perf_threads threads = { 0 };

	assert_null(xp_perf_threads_find(&threads, 1));
	xp_perf_threads_remove(&threads, 1);
	for (pid_t tid = 1; tid <= 5000; tid++) {
		struct xp_perf_thread *thread = xp_perf_threads_get(&threads, 1, tid);

		assert_non_null(thread);
		thread->is_named = true;
	}
	assert_int_equal(threads.by_tid.count, 5000);
	for (pid_t tid = 1; tid <= 5000; tid++)
		assert_int_equal(xp_perf_threads_find(&threads, tid)->tid, tid);
	assert_true(xp_perf_threads_get(&threads, 1, 77)->is_named);
	assert_false(xp_perf_threads_get(&threads, 2, 77)->is_named); /* now another process's thread */
	for (pid_t tid = 1; tid <= 5000; tid += 2)
		xp_perf_threads_remove(&threads, tid);
	assert_int_equal(threads.by_tid.count, 2500);
	assert_null(xp_perf_threads_find(&threads, 1));
	assert_non_null(xp_perf_threads_find(&threads, 2));
	xp_perf_threads_free(&threads);
}

/* The path in the table of build IDs is cleaned as in the records: perf prints both on terminals. */
TEST_WITH(test_build_id_path, setup, teardown)
{
	char program[4096] = "", path[128];
	struct xp_sideband_event event = {
		.kind = XP_SIDEBAND_MMAP,
		.pid = getpid(),
		.tid = getpid(),
		.start = 0x1000,
		.length = 0x1000,
		.text = path,
	};
	static char bytes[1 << 20];
	size_t places = 0;
	struct stat st;
	ssize_t size;
	int fd;

	assert_true(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
	assert_int_equal(stat(program, &st), 0);
	snprintf(path, sizeof(path), "%s/pro\033gram", world.dir);
	assert_int_equal(symlink(program, path), 0);
	event.inode = st.st_ino;
	name(10, XP_SIDEBAND_EXEC, getpid(), getpid(), "program");
	tell(&event);
	sample(100, getpid(), getpid(), "program");
	assert_int_equal(xp_perf_out_finish(world.out), 0);
	assert_int_equal(unlink(path), 0);
	fd = openat(world.dir_fd, XP_PERF_DATA_NAME, O_RDONLY);
	size = read(fd, bytes, sizeof(bytes));
	close(fd);
	assert_true(size > 0);
	assert_null(memmem(bytes, size, "pro\033gram", 8));
	for (const char *at = bytes; (at = memmem(at, size - (at - bytes), "/pro?gram", 9)); at++)
		places++;
	assert_int_equal(places, 2);
}
