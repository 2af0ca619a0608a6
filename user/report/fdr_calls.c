// SPDX-License-Identifier: BSD-2-Clause
#include "report/fdr_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/u64_map.h"
#include "base/util.h"

#define FRAMES_MAX (8u << 20) /* open calls of all threads: 128 MiB */
#define FUNCTIONS_MAX (4u << 20)
#define THREADS_MAX (1u << 20)
#define LEFT_MAX 4096 /* calls that one exit may find left without theirs */

struct open_call {
	uint32_t function; /* index */
	uint64_t tsc;
};

struct thread {
	struct open_call *calls;
	uint32_t depth;
	uint32_t room;
};

struct reading {
	struct xp_call_log *log;
	size_t function_room;
	struct xp_number_map functions; /* by id */
	struct thread *threads;
	size_t thread_count;
	size_t thread_room;
	struct xp_number_map thread_map; /* by pid and tid */
	uint64_t frames;		 /* room of all threads */
};

/* Makes room for one more element; the array at least doubles. */
static int grow(void **array, size_t count, size_t *room, size_t element_bytes)
{
	size_t new_room = XP_MAX(*room * 2, (size_t)16);
	void *new;

	if (count < *room)
		return 0;
	new = reallocarray(*array, new_room, element_bytes);
	if (!new)
		return -ENOMEM;
	*array = new;
	*room = new_room;
	return 0;
}

/* Of the function. -E2BIG beyond the limit. */
static int function_index(struct reading *reading, uint32_t id, uint32_t *index)
{
	struct xp_call_log *log = reading->log;
	uint32_t *known = xp_number_map_find(&reading->functions, id);

	if (known) {
		*index = *known;
		return 0;
	}
	if (log->function_count == FUNCTIONS_MAX)
		return -E2BIG;
	if (grow((void **)&log->functions, log->function_count, &reading->function_room, sizeof(*log->functions)))
		return -ENOMEM;
	*index = (uint32_t)log->function_count;
	if (!xp_number_map_add(&reading->functions, id, *index))
		return -ENOMEM;
	log->functions[log->function_count++] = (struct xp_calls){ .function_id = id };
	return 0;
}

static int thread_of(struct reading *reading, const struct xp_fdr_record *record, struct thread **thread)
{
	uint64_t key = (uint64_t)(uint32_t)record->pid << 32 | (uint32_t)record->tid;
	uint32_t *index = xp_number_map_find(&reading->thread_map, key);

	if (!index) {
		if (reading->thread_count == THREADS_MAX)
			return -E2BIG;
		if (grow((void **)&reading->threads, reading->thread_count, &reading->thread_room,
			 sizeof(*reading->threads)))
			return -ENOMEM;
		index = xp_number_map_add(&reading->thread_map, key, (uint32_t)reading->thread_count);
		if (!index)
			return -ENOMEM;
		reading->threads[reading->thread_count++] = (struct thread){ 0 };
	}
	*thread = &reading->threads[*index];
	return 0;
}

static int enter(struct reading *reading, struct thread *thread, uint32_t function, uint64_t tsc)
{
	if (thread->depth == thread->room) {
		uint32_t room = XP_MAX(thread->room * 2, 16u);
		struct open_call *calls;

		if (reading->frames + room - thread->room > FRAMES_MAX)
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

/* Calls above the one that ends were left without an exit; an exit without an entry is of a call begun earlier. */
static void leave(struct reading *reading, struct thread *thread, uint32_t function, uint64_t tsc)
{
	uint32_t depth = thread->depth, lowest = depth - XP_MIN(depth, LEFT_MAX);

	while (depth > lowest && thread->calls[depth - 1].function != function)
		depth--;
	if (depth == lowest)
		return;
	thread->depth = depth - 1;
	if (tsc >= thread->calls[depth - 1].tsc) {
		struct xp_calls *calls = &reading->log->functions[function];

		calls->ended++;
		calls->cycles += tsc - thread->calls[depth - 1].tsc;
	}
}

static int take(struct reading *reading, const struct xp_fdr_record *record)
{
	bool entry = record->kind == XP_FDR_ENTER || record->kind == XP_FDR_ENTER_ARGS;
	struct thread *thread;
	uint32_t function;
	int err;

	reading->log->calls += entry;
	err = function_index(reading, record->function.fn_id, &function);
	if (err)
		return err;
	reading->log->functions[function].calls += entry;
	err = thread_of(reading, record, &thread);
	if (!err && entry)
		err = enter(reading, thread, function, record->tsc);
	else if (!err)
		leave(reading, thread, function, record->tsc);
	return err;
}

static int read_all(struct reading *reading, struct xp_fdr_reader *reader, struct xp_violation *violation)
{
	struct xp_fdr_record record;
	int more;

	while ((more = xp_fdr_reader_next(reader, &record, violation)) > 0) {
		int err = record.is_function ? take(reading, &record) : 0;

		if (err && err != -E2BIG)
			return err;
	}
	return more;
}

static void reading_free(struct reading *reading)
{
	for (size_t i = 0; i < reading->thread_count; i++)
		free(reading->threads[i].calls);
	free(reading->threads);
	xp_number_map_free(&reading->thread_map);
	xp_number_map_free(&reading->functions);
}

int xp_call_log_read(struct xp_call_log *log, const uint8_t *bytes, uint64_t size, struct xp_violation *violation)
{
	struct reading reading = { .log = log };
	struct xp_fdr_reader reader;
	int err;

	memset(log, 0, sizeof(*log));
	err = xp_fdr_reader_init(&reader, bytes, size, violation);
	if (err)
		return err;
	log->cycle_hz = reader.header.cycle_hz;
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
	free(log->functions);
	memset(log, 0, sizeof(*log));
}
