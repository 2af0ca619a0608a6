// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes FDR logs of many shapes, through the encoder, the spool and the layout, for the readers of other tools:
 * fdr_gen SHAPE VERSION DIR writes DIR/log.fdr and prints its expected content as JSON.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_name.h"
#include "export/logs.h"
#include "trace/spool.h"

#define FUNCTIONS 4 /* IDs 1..4, which are in the instrumentation map of the tests */
#define CHUNK_BYTES (8u << 10)
#define START_TSC 1000000000ull
#define HZ 2000000000ull

struct thread {
	int32_t tid;
	struct xp_fdr_enc enc;
	uint64_t tsc;
	uint8_t buf[CHUNK_BYTES];
};

static struct xp_spool *spool;
static uint64_t entries[FUNCTIONS + 1];
static uint64_t exits[FUNCTIONS + 1];
static uint64_t events, arguments;

static void die(const char *what, int err)
{
	fprintf(stderr, "fdr_gen: %s: %s\n", what, strerror(-err));
	exit(1);
}

static void flush(struct thread *thread)
{
	char name[16];
	int err;

	if (!thread->enc.buf)
		return;
	snprintf(name, sizeof(name), "worker-%d", thread->tid);
	err = xp_spool_append(spool, thread->tid, name, &thread->enc);
	if (err)
		die("append", err);
	thread->enc.buf = NULL;
}

static struct xp_fdr_enc *ready(struct thread *thread, uint16_t cpu)
{
	if (!thread->enc.buf)
		xp_fdr_enc_begin(&thread->enc, thread->buf, sizeof(thread->buf), cpu, thread->tsc);
	return &thread->enc;
}

#define PUT(thread, cpu, encode)                                                                                       \
	do {                                                                                                           \
		struct xp_fdr_enc *enc = ready(thread, cpu);                                                           \
		int err = (encode);                                                                                    \
		if (err == -ENOSPC) {                                                                                  \
			flush(thread);                                                                                 \
			enc = ready(thread, cpu);                                                                      \
			err = (encode);                                                                                \
		}                                                                                                      \
		if (err)                                                                                               \
			die("encode", err);                                                                            \
	} while (0)

static void enter(struct thread *thread, uint16_t cpu, uint32_t fn_id)
{
	PUT(thread, cpu, xp_fdr_enc_function(enc, cpu, thread->tsc, fn_id, XP_FDR_ENTER));
	entries[fn_id]++;
}

static void leave(struct thread *thread, uint16_t cpu, uint32_t fn_id, enum xp_fdr_function_kind kind)
{
	PUT(thread, cpu, xp_fdr_enc_function(enc, cpu, thread->tsc, fn_id, kind));
	exits[fn_id]++;
}

/* One call of function 1, which calls each of the others once: 8 records. */
static void call_all(struct thread *thread, uint16_t cpu, uint64_t step)
{
	enter(thread, cpu, 1);
	for (uint32_t id = 2; id <= FUNCTIONS; id++) {
		thread->tsc += step;
		enter(thread, cpu, id);
		thread->tsc += step;
		leave(thread, cpu, id, id == 2 ? XP_FDR_TAIL_EXIT : XP_FDR_EXIT);
	}
	thread->tsc += step;
	leave(thread, cpu, 1, XP_FDR_EXIT);
	thread->tsc += step;
}

static struct thread *threads_new(int count)
{
	struct thread *threads = calloc(count, sizeof(*threads));

	if (!threads)
		die("threads", -ENOMEM);
	for (int i = 0; i < count; i++) {
		threads[i].tid = 70000 + i; /* more than the two bytes of the specification's field */
		threads[i].tsc = START_TSC + 1000 * (count - i);
	}
	return threads;
}

static void shape_none(void)
{
}

static void shape_small(void)
{
	struct thread *threads = threads_new(1);

	for (int i = 0; i < 3; i++)
		call_all(threads, i, 100);
	flush(threads);
	free(threads);
}

static void shape_threads(void)
{
	struct thread *threads = threads_new(40);

	for (int round = 0; round < 100; round++)
		for (int i = 0; i < 40; i++)
			call_all(&threads[i], (i + round / 25) % 8, 10 + i);
	for (int i = 0; i < 40; i++)
		flush(&threads[i]);
	free(threads);
}

/* One thread is far longer than the others: version 1 is mostly holes. */
static void shape_uneven(void)
{
	struct thread *threads = threads_new(24);

	for (int i = 0; i < 24; i++)
		call_all(&threads[i], i, 50);
	for (int round = 0; round < 5000; round++)
		call_all(&threads[5], 5, 50);
	for (int i = 0; i < 24; i++)
		flush(&threads[i]);
	free(threads);
}

static void shape_long(void)
{
	struct thread *threads = threads_new(1);

	for (int i = 0; i < 50000; i++)
		call_all(threads, 1, 20);
	flush(threads);
	free(threads);
}

static void shape_wraps(void)
{
	struct thread *threads = threads_new(3);

	for (int round = 0; round < 1000; round++)
		for (int i = 0; i < 3; i++)
			call_all(&threads[i], round % 4, (1ull << 32) - 2 + round % 5);
	for (int i = 0; i < 3; i++)
		flush(&threads[i]);
	free(threads);
}

static void shape_args(void)
{
	struct thread *threads = threads_new(2);
	const uint64_t args[6] = { 1, UINT64_MAX, 0x8000000000000000, 0, 42, 7 };

	for (int round = 0; round < 5000; round++) {
		struct thread *thread = &threads[round % 2];
		unsigned int count = round % 7;

		PUT(thread, 0, xp_fdr_enc_args(enc, 0, thread->tsc, 3, args, count));
		entries[3]++;
		arguments += count;
		thread->tsc += 30;
		call_all(thread, 0, 30);
		leave(thread, 0, 3, XP_FDR_EXIT);
	}
	flush(&threads[0]);
	flush(&threads[1]);
	free(threads);
}

/* Payloads have odd lengths, so that the next record is unaligned. */
static void events_put(bool typed)
{
	struct thread *threads = threads_new(3);
	uint8_t payload[XP_FDR_EVENT_BYTES_MAX];

	memset(payload, 'x', sizeof(payload));
	for (int round = 0; round < 1000; round++) {
		struct thread *thread = &threads[round % 3];
		uint32_t size = round % 100 ? (uint32_t)round % 53 : (uint32_t)sizeof(payload);

		thread->tsc += round % 10 ? 15 : 1ull << 33;
		PUT(thread, round % 3, xp_fdr_enc_custom(enc, round % 3, thread->tsc, payload, size));
		events++;
		if (typed) {
			thread->tsc += 15;
			PUT(thread, 1, xp_fdr_enc_typed(enc, 1, thread->tsc, round, payload, size));
			events++;
		}
		call_all(thread, 1, 15);
	}
	for (int i = 0; i < 3; i++)
		flush(&threads[i]);
	free(threads);
}

static void shape_events(void)
{
	events_put(false);
}

static void shape_typed(void)
{
	events_put(true);
}

/* The recording stops during calls. */
static void shape_open(void)
{
	struct thread *threads = threads_new(5);

	for (int i = 0; i < 5; i++) {
		for (int depth = 0; depth <= 5000 * i; depth++) {
			enter(&threads[i], 2, 1 + depth % FUNCTIONS);
			threads[i].tsc += 9;
		}
		flush(&threads[i]);
	}
	free(threads);
}

/* Each record is a separate chunk. */
static void shape_chunks(void)
{
	struct thread *threads = threads_new(2);

	for (int round = 0; round < 4000; round++) {
		struct thread *thread = &threads[round % 2];

		enter(thread, 0, 1);
		flush(thread);
		thread->tsc += 1u << 28;
		leave(thread, 1, 1, XP_FDR_EXIT);
		flush(thread);
		thread->tsc += 1u << 28;
	}
	free(threads);
}

/* Exits as xprof does when it is killed during a recording. */
static void shape_killed(void)
{
	struct thread *threads = threads_new(1);

	call_all(threads, 0, 10);
	flush(threads);
	xp_spool_flush(spool);
	raise(SIGKILL);
}

static const struct {
	const char *name;
	void (*make)(void);
} shapes[] = {
	{ "none", shape_none },	  { "small", shape_small }, { "threads", shape_threads }, { "uneven", shape_uneven },
	{ "long", shape_long },	  { "wraps", shape_wraps }, { "args", shape_args },	  { "events", shape_events },
	{ "typed", shape_typed }, { "open", shape_open },   { "chunks", shape_chunks },	  { "killed", shape_killed },
};

static void report(const struct xp_spool_result *result)
{
	uint64_t functions = 0;

	printf("{\"version\": %u, \"threads\": %u, \"file_bytes\": %" PRIu64 ", \"events\": %" PRIu64
	       ", \"arguments\": %" PRIu64 ", \"entries\": {",
	       result->fdr_version, result->threads, result->file_bytes, events, arguments);
	for (int i = 1; i <= FUNCTIONS; i++) {
		printf("%s\"%d\": %" PRIu64, i > 1 ? ", " : "", i, entries[i]);
		functions += entries[i] + exits[i];
	}
	printf("}, \"exits\": {");
	for (int i = 1; i <= FUNCTIONS; i++)
		printf("%s\"%d\": %" PRIu64, i > 1 ? ", " : "", i, exits[i]);
	printf("}}\n");
	if (result->stats.functions != functions || result->stats.events != events ||
	    result->stats.arguments != arguments || result->dropped_bytes)
		die("the spool's counts are wrong", -EINVAL);
}

int main(int argc, char **argv)
{
	struct xp_log_info info = { .pid = 70000,
				    .constant_tsc = true,
				    .nonstop_tsc = true,
				    .cycle_hz = HZ,
				    .start_tsc = START_TSC,
				    .wall_ns = 1700000000000000000ull,
				    .comm = "fdr_gen",
				    .exe = "/bin/true",
				    .final_name = "log.fdr" };
	static struct xp_spool_result result;
	int dir, err;

	if (argc != 4)
		die("usage: fdr_gen SHAPE VERSION DIR", -EINVAL);
	info.fdr_version = atoi(argv[2]);
	dir = open(argv[3], O_RDONLY | O_DIRECTORY);
	if (dir < 0)
		die(argv[3], -errno);
	err = xp_spool_create(&spool, dir, "log" XP_SPOOL_SUFFIX, &info);
	if (err)
		die("create", err);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		if (strcmp(shapes[i].name, argv[1]))
			continue;
		shapes[i].make();
		err = xp_spool_flush(spool);
		xp_spool_free(spool);
		if (!err)
			err = xp_fdr_make(dir, "log" XP_SPOOL_SUFFIX, 0, NULL, &result);
		if (err)
			die("finish", err);
		report(&result);
		close(dir);
		return 0;
	}
	die(argv[1], -EINVAL);
	return 1;
}
