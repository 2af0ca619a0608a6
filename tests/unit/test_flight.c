/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder: its logs are always valid and hold the newest records. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "check/formats.h"
#include "export/logs.h"
#include "trace/flight.h"
#include "trace/triggers.h"
#include "trace/thread_run.h"

#define RING_BYTES (128u << 10)
#define THREADS 3
#define DEPTH_MAX 40

static char place[] = "/tmp/xprof-test-flight-XXXXXX";
static int dir;

static const struct xp_log_info info = {
	.pid = 500,
	.fdr_version = 1,
	.constant_tsc = true,
	.cycle_hz = 1000000000,
	.start_tsc = 1000,
	.wall_ns = 5000000000,
	.comm = "program",
	.exe = "/usr/bin/program",
	.final_name = "a.fdr",
};

struct world {
	struct xp_flight *flight;
	struct xp_thread_options options;
	struct xp_thread *threads[THREADS];
	uint64_t tsc;
};

static int keep(void *arg, struct xp_thread *thread)
{
	struct world *world = arg;

	assert_int_equal(xp_flight_add_chunk(world->flight, thread), 0);
	return XP_CHUNK_KEPT;
}

static void ignore(void *arg, uint32_t fn_id)
{
	(void)arg;
	(void)fn_id;
}

static int make_world(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_int_equal(xp_flight_new(&world->flight, RING_BYTES), 0);
	world->options = (struct xp_thread_options){ 0, keep, world, .synthesized = ignore };
	world->tsc = 5000;
	for (int i = 0; i < THREADS; i++) {
		/* The last thread reuses the TID of the thread before it, which has ended. */
		assert_int_equal(xp_thread_new(&world->threads[i], &world->options, 600 + XP_MIN(i, 1)), 0);
		world->threads[i]->serial = i;
		strcpy(world->threads[i]->name, "thread");
	}
	*state = world;
	return 0;
}

static int drop_world(void **state)
{
	struct world *world = *state;

	for (int i = 0; i < THREADS; i++)
		xp_thread_free(world->threads[i]);
	xp_flight_free(world->flight);
	free(world);
	unlinkat(dir, "a.fdr", 0);
	return 0;
}

static void call(struct world *world, int thread, enum xp_event_kind kind, uint32_t fn, uint32_t depth)
{
	const struct xp_call record = { world->tsc += 10, xp_event_word(fn, kind), 100000 - depth,
					.cpu = (uint16_t)thread };

	assert_int_equal(xp_thread_put(world->threads[thread], &record), 0);
}

static void enter(struct world *world, int thread)
{
	uint32_t depth = world->threads[thread]->depth;

	call(world, thread, XP_EVENT_ENTRY, depth + 1, depth);
}

static void leave(struct world *world, int thread)
{
	uint32_t depth = world->threads[thread]->depth - 1;

	call(world, thread, XP_EVENT_EXIT, depth + 1, depth);
}

static void close_thread(struct world *world, int thread)
{
	assert_int_equal(xp_thread_flush(world->threads[thread]), 0);
	xp_flight_add_stack(world->flight, world->threads[thread]);
}

static int make_log(int dir_fd, const char *spool_name, struct xp_spool_result *result)
{
	return xp_fdr_make(dir_fd, spool_name, 0, NULL, result);
}

/* Writes the log and checks it. */
static void write_log(struct world *world, struct xp_flight_result *result)
{
	struct xp_report report = { 0 };
	struct stat st;
	uint8_t *bytes;
	uint64_t shares = 0;
	int fd;

	assert_int_equal(xp_flight_write_log(world->flight, dir, &info, make_log, result), 0);
	for (size_t i = 0; i < result->share_count; i++)
		shares += result->shares[i].records;
	assert_int_equal(shares, result->records);
	fd = openat(dir, "a.fdr", O_RDONLY);
	assert_true(fd >= 0 && !fstat(fd, &st));
	assert_int_equal(st.st_size, result->file_bytes);
	bytes = malloc(st.st_size);
	assert_int_equal(read(fd, bytes, st.st_size), st.st_size);
	close(fd);
	assert_int_equal(xp_format_fdr.check(bytes, st.st_size, &report), 0);
	if (report.finding_count)
		fail_msg("%s", report.findings[0].text);
	free(bytes);
}

/* 60000 calls and returns of threads at any depth, in 30 logs: readers accept each of them. */
TEST_WITH(every_log_is_right, make_world, drop_world)
{
	struct world *world = *state;
	uint64_t seen = 0, written = 0, made = 0;

	srand(1);
	for (int round = 0; round < 30; round++) {
		struct xp_flight_result result;
		int steps = rand() % 40000;

		for (int step = 0; step < steps; step++) {
			int thread = rand() % 2;
			uint32_t depth = world->threads[thread]->depth;

			if (!depth || (depth < DEPTH_MAX && rand() % 2))
				enter(world, thread);
			else
				leave(world, thread);
			if (rand() % 500 == 0)
				assert_int_equal(xp_thread_flush(world->threads[thread]), 0);
		}
		seen += steps;
		for (int thread = 0; thread < 2; thread++)
			close_thread(world, thread);
		write_log(world, &result);
		assert_true(result.records <= (uint64_t)steps && (steps > 10000 || result.records == (uint64_t)steps));
		assert_true(result.entries <= 2 * DEPTH_MAX + 2u * steps);
		made += result.entries;
		written += result.records;
		free(result.shares);
		xp_flight_free(world->flight);
		assert_int_equal(xp_flight_new(&world->flight, RING_BYTES), 0);
	}
	assert_true(written < seen && made > 30);
}

/* Earlier calls: open calls get entries from the stack, ended calls from their exits. */
TEST_WITH(calls_of_before_have_entries, make_world, drop_world)
{
	struct world *world = *state;
	struct xp_flight_result result;

	for (int i = 0; i < 5; i++)
		enter(world, 0);
	assert_int_equal(xp_thread_flush(world->threads[0]), 0);
	/* Discards all earlier records. */
	xp_flight_free(world->flight);
	assert_int_equal(xp_flight_new(&world->flight, RING_BYTES), 0);
	leave(world, 0);
	leave(world, 0);
	enter(world, 0);
	close_thread(world, 0);
	write_log(world, &result);
	assert_int_equal(result.records, 3);
	assert_int_equal(result.entries, 5);
	assert_int_equal(result.exits, 0);
	assert_int_equal(result.threads, 1);
	free(result.shares);
}

/* The stack needs more than one chunk of entries. Without memory for it, the log has none. */
TEST_WITH(deep_stacks_have_entries, make_world, drop_world)
{
	struct world *world = *state;
	struct xp_flight_result result;

	for (int i = 0; i < 5000; i++)
		enter(world, 0);
	assert_int_equal(xp_thread_flush(world->threads[0]), 0);
	xp_flight_free(world->flight);
	assert_int_equal(xp_flight_new(&world->flight, RING_BYTES), 0);
	leave(world, 0);
	close_thread(world, 0);
	write_log(world, &result);
	assert_int_equal(result.entries, 5000);
	free(result.shares);
	assert_int_equal(unlinkat(dir, "a.fdr", 0), 0);

	for (int i = 0; i < 30000; i++)
		enter(world, 0);
	assert_int_equal(xp_thread_flush(world->threads[0]), 0);
	xp_flight_free(world->flight);
	assert_int_equal(xp_flight_new(&world->flight, RING_BYTES), 0);
	leave(world, 0);
	close_thread(world, 0);
	write_log(world, &result);
	assert_int_equal(result.entries, 1);
	free(result.shares);
}

TEST_WITH(threads_of_one_number_share_it, make_world, drop_world)
{
	struct world *world = *state;
	struct xp_flight_result result;

	enter(world, 1);
	close_thread(world, 1);
	enter(world, 2);
	leave(world, 2);
	close_thread(world, 2);
	write_log(world, &result);
	assert_int_equal(result.threads, 1);
	assert_int_equal(result.share_count, 2);
	assert_int_equal(result.records, 3);
	free(result.shares);
}

TEST_WITH(nothing_is_no_log, make_world, drop_world)
{
	struct world *world = *state;
	struct xp_flight_result result;

	assert_int_equal(xp_flight_write_log(world->flight, dir, &info, make_log, &result), 0);
	assert_int_equal(result.records, 0);
	assert_int_equal(faccessat(dir, "a.fdr", F_OK, 0), -1);
	free(result.shares);
}

/* The file's size limit acts as a full disk: no file remains, and the loss is counted. */
TEST_WITH(failure_tells_what_is_lost, make_world, drop_world)
{
	struct world *world = *state;
	struct xp_flight_result result;
	struct rlimit before, limit;

	for (int i = 0; i < 3000; i++) {
		enter(world, 0);
		leave(world, 0);
	}
	close_thread(world, 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = 4096;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(xp_flight_write_log(world->flight, dir, &info, make_log, &result), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(result.share_count, 1);
	assert_int_equal(result.shares[0].records, 6000);
	assert_int_equal(faccessat(dir, "a.fdr", F_OK, 0), -1);
	assert_int_equal(faccessat(dir, "a.fdr.part", F_OK, 0), -1);
	free(result.shares);
}

/* Delays of a few ticks use half of the logs. The other half is for calls that are slower than all before. */
TEST(slower_calls_find_logs_left)
{
	struct xp_triggers triggers;
	unsigned int logs = 0;

	assert_int_equal(xp_triggers_new(&triggers, 1, 6, 100), 0);
	for (uint64_t now = 1000; now < 1050; now++)
		logs += xp_triggers_ask(&triggers, 7, true, 5, now) == XP_TRIGGER_WRITES;
	assert_int_equal(logs, 3);
	assert_int_equal(xp_triggers_ask(&triggers, 7, true, 60, 1050), XP_TRIGGER_WRITES);
	assert_int_equal(xp_triggers_ask(&triggers, 7, true, 59, 1051), XP_TRIGGER_BEYOND_LIMIT);
	assert_int_equal(xp_triggers_ask(&triggers, 7, true, 61, 1052), XP_TRIGGER_WRITES);
	assert_int_equal(xp_triggers_ask(&triggers, 7, true, 62, 1053), XP_TRIGGER_WRITES);
	assert_int_equal(xp_triggers_ask(&triggers, 7, true, 63, 1054), XP_TRIGGER_BEYOND_LIMIT);
	/* Two minutes later, there are no earlier calls to compare with. */
	assert_int_equal(xp_triggers_ask(&triggers, 7, true, 1, 1200), XP_TRIGGER_WRITES);
	xp_triggers_free(&triggers);
}

/*
 * A process that is always slow leaves logs for others; alone, it gets all. One minute later, there are as many again.
 */
TEST(one_process_does_not_take_all_logs)
{
	struct xp_triggers triggers;
	unsigned int logs[4] = { 0 };
	uint64_t now = 1000;

	/* Each call is longer than those before. */
	assert_int_equal(xp_triggers_new(&triggers, 1, 6, 100), 0);
	for (int i = 0; i < 10; i++, now++)
		logs[0] += xp_triggers_ask(&triggers, 7, false, now, now) == XP_TRIGGER_WRITES;
	assert_int_equal(xp_triggers_ask(&triggers, 7, false, now, now), XP_TRIGGER_BEYOND_SHARE);
	for (int pid = 8; pid < 11; pid++)
		for (int i = 0; i < 10; i++, now++)
			logs[pid - 7] += xp_triggers_ask(&triggers, pid, false, now, now) == XP_TRIGGER_WRITES;
	assert_int_equal(logs[0], 3);
	assert_int_equal(logs[1], 2);
	assert_int_equal(logs[2], 1);
	assert_int_equal(logs[3], 0);
	assert_int_equal(xp_triggers_ask(&triggers, 11, false, 5, now), XP_TRIGGER_BEYOND_LIMIT);
	/* The first three logs are now older than one minute. */
	assert_int_equal(xp_triggers_ask(&triggers, 7, false, 1103, 1103), XP_TRIGGER_WRITES);
	xp_triggers_free(&triggers);

	assert_int_equal(xp_triggers_new(&triggers, 1, 2, 100), 0);
	assert_int_equal(xp_triggers_ask(&triggers, 7, true, 5, 1), XP_TRIGGER_WRITES);
	assert_int_equal(xp_triggers_ask(&triggers, 7, true, 5, 2), XP_TRIGGER_WRITES);
	assert_int_equal(xp_triggers_ask(&triggers, 7, true, 5, 3), XP_TRIGGER_BEYOND_LIMIT);
	assert_int_equal(xp_triggers_ask(&triggers, 7, true, 5, 101), XP_TRIGGER_WRITES);
	xp_triggers_free(&triggers);
}

int unit_set_up(void **state)
{
	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	if (!mkdtemp(place))
		return -1;
	dir = open(place, O_RDONLY | O_DIRECTORY);
	return dir < 0;
}

int unit_tear_down(void **state)
{
	(void)state;
	close(dir);
	return rmdir(place);
}
