// SPDX-License-Identifier: BSD-2-Clause
#include "report/fdr_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress_line.h"
#include "base/array.h"
#include "base/u64_map.h"
#include "base/util.h"

#define FRAMES_MAX (2u << 20) /* open calls of all threads: 32 MiB */
#define FRAMES_FIRST 8	      /* room of a thread's first call */
#define FUNCTIONS_MAX (4u << 20)
#define THREADS_MAX (512u << 10) /* with their table: 20 MiB */
#define LEFT_MAX 4096		 /* most calls that one exit can find without exits */
#define NS_MAX 9e18		 /* a clock of 1 Hz: more does not fit */

struct open_call {
	uint32_t function; /* its index */
	uint64_t tsc;
};

struct thread {
	struct open_call *calls;
	uint32_t depth;
	uint32_t room;
};

struct reading {
	struct xp_call_log *log;
	struct xp_file_view *view;
	const struct xp_call_log_options *options;
	double ns_per_cycle;
	bool has_begun; /* the log's first_tsc is known */
	size_t function_room;
	struct xp_u64_map functions; /* by id, and by TID if threads are told apart */
	struct thread *threads;
	size_t thread_count;
	size_t thread_room;
	struct xp_u64_map thread_map; /* by PID and TID */
	uint64_t frames;	      /* capacity of all threads */
	bool gave_back;		      /* none of it is unused */
};

/* Finds or adds the function of this record. Returns 0, -E2BIG beyond the limit, or -ENOMEM. */
static int function_index(struct reading *reading, const struct xp_fdr_record *record, uint32_t *index)
{
	int32_t tid = reading->options->by_thread ? record->tid : 0;
	uint64_t key = (uint64_t)(uint32_t)tid << 32 | record->function.fn_id;
	struct xp_call_log *log = reading->log;
	uint32_t *known = xp_u64_map_find(&reading->functions, key);

	if (known) {
		*index = *known;
		return 0;
	}
	if (log->function_count == FUNCTIONS_MAX)
		return -E2BIG;
	if (XP_ARRAY_RESERVE(log->functions, reading->function_room, log->function_count + 1))
		return -ENOMEM;
	*index = (uint32_t)log->function_count;
	if (!xp_u64_map_add(&reading->functions, key, *index))
		return -ENOMEM;
	log->functions[log->function_count++] = (struct xp_calls){ .function_id = record->function.fn_id, .tid = tid };
	return 0;
}

static int thread_of(struct reading *reading, const struct xp_fdr_record *record, struct thread **thread)
{
	uint64_t key = (uint64_t)(uint32_t)record->pid << 32 | (uint32_t)record->tid;
	uint32_t *index = xp_u64_map_find(&reading->thread_map, key);

	if (!index) {
		if (reading->thread_count == THREADS_MAX)
			return -E2BIG;
		if (XP_ARRAY_RESERVE(reading->threads, reading->thread_room, reading->thread_count + 1))
			return -ENOMEM;
		index = xp_u64_map_add(&reading->thread_map, key, (uint32_t)reading->thread_count);
		if (!index)
			return -ENOMEM;
		reading->threads[reading->thread_count++] = (struct thread){ 0 };
	}
	*thread = &reading->threads[*index];
	return 0;
}

/* Takes the room of threads without open calls, of which many may have ended. Returns whether that was worth it. */
static bool give_back(struct reading *reading)
{
	uint64_t before = reading->frames;

	if (reading->gave_back)
		return false;
	for (size_t i = 0; i < reading->thread_count; i++) {
		struct thread *thread = &reading->threads[i];

		if (thread->depth || !thread->room)
			continue;
		reading->frames -= thread->room;
		free(thread->calls);
		*thread = (struct thread){ 0 };
	}
	reading->gave_back = before - reading->frames < FRAMES_MAX / 8;
	return before > reading->frames;
}

static int enter(struct reading *reading, struct thread *thread, uint32_t function, uint64_t tsc)
{
	if (thread->depth == thread->room) {
		uint32_t room = XP_MAX(thread->room * 2, FRAMES_FIRST);
		struct open_call *calls;

		if (reading->frames + room - thread->room > FRAMES_MAX &&
		    (!give_back(reading) || reading->frames + room - thread->room > FRAMES_MAX))
			return -E2BIG;
		calls = reallocarray(thread->calls, room, sizeof(*calls));
		if (!calls)
			return -ENOMEM;
		reading->frames += room - thread->room;
		thread->calls = calls;
		thread->room = room;
	}
	thread->calls[thread->depth++] = (struct open_call){ .function = function, .tsc = tsc };
	return 0;
}

static int count_time(struct reading *reading, uint32_t function, uint64_t from_tsc, const struct xp_fdr_record *record)
{
	struct xp_calls *calls = &reading->log->functions[function];
	uint64_t cycles = record->tsc - from_tsc;

	calls->ended++;
	calls->cycles += cycles;
	if (!reading->options->memory)
		return 0;
	return xp_durations_add(&calls->durations, reading->options->memory,
				(uint64_t)XP_MIN((double)cycles * reading->ns_per_cycle + 0.5, NS_MAX), from_tsc,
				(uint32_t)record->tid);
}

/* Calls above the one that ends have no exit. An exit without an entry belongs to a call that began before the log. */
static int leave(struct reading *reading, struct thread *thread, uint32_t function, const struct xp_fdr_record *record)
{
	uint32_t depth = thread->depth, lowest = depth - XP_MIN(depth, LEFT_MAX);

	while (depth > lowest && thread->calls[depth - 1].function != function)
		depth--;
	if (depth == lowest)
		return 0;
	thread->depth = depth - 1;
	if (record->tsc < thread->calls[depth - 1].tsc)
		return 0;
	return count_time(reading, function, thread->calls[depth - 1].tsc, record);
}

static int take(struct reading *reading, const struct xp_fdr_record *record)
{
	bool entry = record->kind == XP_FDR_ENTER || record->kind == XP_FDR_ENTER_ARGS;
	struct thread *thread;
	uint32_t function;
	int err;

	if (!reading->has_begun)
		reading->log->first_tsc = record->tsc;
	reading->has_begun = true;
	reading->log->calls += entry;
	err = function_index(reading, record, &function);
	if (err)
		return err;
	reading->log->functions[function].calls += entry;
	err = thread_of(reading, record, &thread);
	if (!err && entry)
		err = enter(reading, thread, function, record->tsc);
	else if (!err)
		err = leave(reading, thread, function, record);
	return err;
}

static int read_all(struct reading *reading, struct xp_fdr_reader *reader, struct xp_violation *violation)
{
	uint64_t release = XP_FILE_VIEW_WINDOW;
	struct xp_progress_line line;
	struct xp_fdr_record record;
	int more, err = 0;

	xp_progress_line_begin(&line, "reading calls", XP_PROGRESS_BYTES, reading->view->size);
	while ((more = xp_fdr_reader_next(reader, &record, violation)) > 0) {
		xp_progress_line_step(&line, record.offset);
		err = record.is_function ? take(reading, &record) : 0;
		if (err && err != -E2BIG)
			break;
		err = 0;
		if (record.offset >= release) {
			xp_file_view_release(reading->view, record.offset);
			release = record.offset + XP_FILE_VIEW_WINDOW;
		}
	}
	xp_progress_line_end(&line);
	return err ? err : more;
}

static void reading_free(struct reading *reading)
{
	for (size_t i = 0; i < reading->thread_count; i++)
		free(reading->threads[i].calls);
	free(reading->threads);
	xp_u64_map_free(&reading->thread_map);
	xp_u64_map_free(&reading->functions);
}

int xp_call_log_read(struct xp_call_log *log, struct xp_file_view *view, const struct xp_call_log_options *options,
		     struct xp_violation *violation)
{
	struct reading reading = { .log = log, .view = view, .options = options };
	struct xp_fdr_reader reader;
	int err;

	*log = (struct xp_call_log){ .memory = options->memory };
	err = xp_fdr_reader_init(&reader, view->bytes, view->size, violation);
	if (err)
		return err;
	log->cycle_hz = reader.header.cycle_hz;
	reading.ns_per_cycle = log->cycle_hz ? (double)XP_NS_PER_S / (double)log->cycle_hz : 0;
	err = read_all(&reading, &reader, violation);
	reading_free(&reading);
	log->open = log->calls;
	for (size_t i = 0; i < log->function_count; i++)
		log->open -= log->functions[i].ended;
	if (err == -ENOMEM)
		xp_call_log_free(log);
	return err;
}

void xp_call_log_free(struct xp_call_log *log)
{
	for (size_t i = 0; log->memory && i < log->function_count; i++)
		xp_durations_free(&log->functions[i].durations, log->memory);
	free(log->functions);
	memset(log, 0, sizeof(*log));
}
