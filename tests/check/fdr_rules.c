// SPDX-License-Identifier: BSD-2-Clause
#include "check/fdr_rules.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/u64_map.h"
#include "base/util.h"

#define BUFFERS_MAX 16
/* 128 MiB of open calls and, with a full table, about as much for threads. */
#define FRAMES_MAX (32u << 20)
#define THREADS_MAX (1u << 20)
#define REST_BYTES_MAX (1ull << 30)

struct thread {
	int32_t pid;
	int32_t tid;
	uint32_t buffers;
	uint32_t depth;
	uint32_t room;
	bool unmatched; /* the limit of open calls was reached: its exits are no longer matched */
	bool has_record;
	bool has_call;
	uint64_t first_tsc; /* of its first record that appears in a trace, and the offset of that record */
	uint64_t first_offset;
	uint64_t call_tsc; /* of its last function record */
	uint64_t wall_us;  /* of its last buffer */
	uint32_t *frames;  /* function ids of the open calls */
};

struct xp_fdr_rules {
	bool violated;
	bool has_buffer;
	bool begins;	     /* between a buffer's NewBuffer and its first NewCPUId */
	uint64_t wall_us;    /* of that buffer */
	uint64_t lowest_tsc; /* of the records that appear in a trace */
	struct xp_violation violation;
	uint64_t rest_bytes; /* bytes behind EndOfBuffer that were checked */
	uint64_t frames;     /* allocated for all threads */
	struct thread *threads;
	struct thread *current; /* of the current buffer; NULL beyond THREADS_MAX */
	size_t count;
	size_t room;
	struct xp_u64_map by_tid; /* index in threads, by PID and TID */
};

static __attribute__((format(printf, 3, 4))) int violate(struct xp_fdr_rules *rules, uint64_t offset,
							 const char *format, ...)
{
	va_list args;

	if (rules->violated)
		return 0;
	rules->violated = true;
	va_start(args, format);
	xp_violate_args(&rules->violation, offset, format, args);
	va_end(args);
	return 0;
}

int xp_fdr_rules_new(struct xp_fdr_rules **out, const struct xp_fdr_reader *reader)
{
	struct xp_fdr_rules *rules = calloc(1, sizeof(*rules));

	*out = rules;
	if (!rules)
		return -ENOMEM;
	rules->lowest_tsc = UINT64_MAX;
	if (!reader->header.cycle_hz)
		violate(rules, 8, "The cycle frequency is 0, so llvm-xray cannot compute durations");
	return 0;
}

/* Makes (pid, tid) the current thread. */
static int select_thread(struct xp_fdr_rules *rules, int32_t pid, int32_t tid)
{
	uint64_t key = (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid;
	const uint32_t *index = xp_u64_map_find(&rules->by_tid, key);

	rules->current = NULL;
	if (!index && rules->count == THREADS_MAX)
		return 0;
	if (!index) {
		if (XP_ARRAY_RESERVE(rules->threads, rules->room, rules->count + 1))
			return -ENOMEM;
		index = xp_u64_map_add(&rules->by_tid, key, rules->count);
		if (!index)
			return -ENOMEM;
		rules->threads[rules->count++] = (struct thread){ .pid = pid, .tid = tid };
	}
	rules->current = &rules->threads[*index];
	return 0;
}

/* The thread of a buffer is known at its first NewCPUId, because Pid precedes that. */
static int begin_body(struct xp_fdr_rules *rules, const struct xp_fdr_record *record)
{
	struct thread *thread;
	int err = select_thread(rules, record->pid, record->tid);

	thread = rules->current;
	if (err || !thread)
		return err;
	if (++thread->buffers > BUFFERS_MAX)
		violate(rules, record->offset,
			"Thread %d has more than %d buffers, which llvm-xray account and stack cannot sort",
			record->tid, BUFFERS_MAX);
	if (rules->wall_us < thread->wall_us)
		violate(rules, record->offset,
			"The wall clock of this buffer of thread %d is earlier than that of its previous buffer, so "
			"llvm-xray may reorder them",
			record->tid);
	thread->wall_us = rules->wall_us;
	return 0;
}

static int push(struct xp_fdr_rules *rules, struct thread *thread, uint32_t fn_id)
{
	if (thread->depth == thread->room) {
		uint32_t room = thread->room ? 2 * thread->room : 16;
		uint32_t *frames;

		if (rules->frames + room - thread->room > FRAMES_MAX) {
			thread->unmatched = true;
			return 0;
		}
		frames = reallocarray(thread->frames, room, sizeof(*frames));
		if (!frames)
			return -ENOMEM;
		rules->frames += room - thread->room;
		thread->frames = frames;
		thread->room = room;
	}
	thread->frames[thread->depth++] = fn_id;
	return 0;
}

static int pop(struct xp_fdr_rules *rules, struct thread *thread, const struct xp_fdr_record *record)
{
	uint32_t fn_id = record->function.fn_id;

	if (!thread->depth)
		return violate(
		    rules, record->offset,
		    "Thread %d leaves function %u without having entered it, which llvm-xray account rejects",
		    thread->tid, fn_id);
	if (thread->frames[thread->depth - 1] != fn_id)
		return violate(rules, record->offset,
			       "Thread %d leaves function %u inside function %u, which llvm-xray account rejects",
			       thread->tid, fn_id, thread->frames[thread->depth - 1]);
	thread->depth--;
	return 0;
}

static int see_call(struct xp_fdr_rules *rules, struct thread *thread, const struct xp_fdr_record *record)
{
	if (thread->has_call && record->tsc < thread->call_tsc)
		violate(rules, record->offset,
			"Thread %d goes back in time by %" PRIu64
			" ticks; llvm-xray graph would change the calls' order",
			thread->tid, thread->call_tsc - record->tsc);
	thread->has_call = true;
	thread->call_tsc = record->tsc;
	if (thread->unmatched)
		return 0;
	if (record->kind == XP_FDR_ENTER || record->kind == XP_FDR_ENTER_ARGS)
		return push(rules, thread, record->function.fn_id);
	return pop(rules, thread, record);
}

static bool is_event(const struct xp_fdr_record *record)
{
	return !record->is_function && (record->kind == XP_FDR_CUSTOM_EVENT || record->kind == XP_FDR_TYPED_EVENT);
}

/* Checks a record that appears in a trace. */
static int see_record(struct xp_fdr_rules *rules, const struct xp_fdr_record *record)
{
	struct thread *thread = rules->current;

	if (is_event(record) && !record->event.bytes)
		violate(rules, record->offset, "The event has no payload, which llvm-xray rejects");
	if (!thread)
		return 0;
	if (!thread->has_record) {
		thread->has_record = true;
		thread->first_tsc = record->tsc;
		thread->first_offset = record->offset;
	}
	rules->lowest_tsc = XP_MIN(rules->lowest_tsc, record->tsc);
	return record->is_function ? see_call(rules, thread, record) : 0;
}

static int32_t padding_event_bytes(const uint8_t *record)
{
	return (int32_t)xp_bytes_get(record + 1, 4);
}

/*
 * llvm-xray reads on behind EndOfBuffer, so the bytes there must read as records that begin no buffer. Zeros do, and
 * may be a hole: beyond a gigabyte of such bytes in a file, the rest is assumed to be valid.
 */
static void check_rest(struct xp_fdr_rules *rules, const struct xp_fdr_record *record)
{
	const uint8_t *p = record->rest.data;
	uint64_t left = record->rest.bytes;

	if (left > REST_BYTES_MAX - rules->rest_bytes)
		return;
	rules->rest_bytes += left;
	while (left) {
		uint64_t bytes = p[0] & 1 ? XP_FDR_METADATA_BYTES : XP_FDR_FUNCTION_BYTES;
		bool bad = bytes > left;

		if (!bad && !(p[0] & 1))
			bad = (p[0] >> 1 & 7) > XP_FDR_ENTER_ARGS;
		else if (!bad && p[0] >> 1 == XP_FDR_CUSTOM_EVENT)
			bad = padding_event_bytes(p) <= 0 ||
			      (uint64_t)padding_event_bytes(p) > left - XP_FDR_METADATA_BYTES;
		else if (!bad)
			bad = p[0] >> 1 == XP_FDR_NEW_BUFFER || p[0] >> 1 > XP_FDR_CALL_ARGUMENT;
		if (bad) {
			violate(rules, record->offset + XP_FDR_METADATA_BYTES + (p - record->rest.data),
				"The bytes after EndOfBuffer are not a record; llvm-xray does not skip them");
			return;
		}
		if (p[0] >> 1 == XP_FDR_CUSTOM_EVENT && p[0] & 1)
			bytes += padding_event_bytes(p);
		p += bytes;
		left -= bytes;
	}
}

int xp_fdr_rules_record(struct xp_fdr_rules *rules, const struct xp_fdr_record *record)
{
	if (record->is_function)
		return see_record(rules, record);
	switch ((enum xp_fdr_metadata_kind)record->kind) {
	case XP_FDR_NEW_BUFFER:
		rules->has_buffer = true;
		rules->begins = true;
		return 0;
	case XP_FDR_WALL_CLOCK:
		if (__builtin_mul_overflow(record->wall.seconds, (uint64_t)1000000, &rules->wall_us) ||
		    __builtin_add_overflow(rules->wall_us, record->wall.microseconds, &rules->wall_us))
			rules->wall_us = UINT64_MAX;
		return 0;
	case XP_FDR_NEW_CPU_ID:
		if (!rules->begins)
			return 0;
		rules->begins = false;
		return begin_body(rules, record);
	case XP_FDR_CUSTOM_EVENT:
	case XP_FDR_TYPED_EVENT:
		return see_record(rules, record);
	case XP_FDR_END_OF_BUFFER:
		check_rest(rules, record);
		return 0;
	default:
		return 0;
	}
}

bool xp_fdr_rules_finish(struct xp_fdr_rules *rules, struct xp_violation *violation)
{
	if (!rules->has_buffer)
		violate(rules, XP_FDR_HEADER_BYTES, "The log has no buffer, so llvm-xray cannot read it");
	for (size_t i = 0; i < rules->count; i++) {
		const struct thread *thread = &rules->threads[i];

		if (thread->has_record && thread->first_tsc > rules->lowest_tsc)
			violate(rules, thread->first_offset,
				"The first TSC of thread %d is not the lowest of the log, so llvm-xray account may "
				"reject it",
				thread->tid);
	}
	if (rules->violated)
		*violation = rules->violation;
	return !rules->violated;
}

size_t xp_fdr_rules_threads(const struct xp_fdr_rules *rules)
{
	return rules->count;
}

void xp_fdr_rules_free(struct xp_fdr_rules *rules)
{
	if (!rules)
		return;
	for (size_t i = 0; i < rules->count; i++)
		free(rules->threads[i].frames);
	free(rules->threads);
	xp_u64_map_free(&rules->by_tid);
	free(rules);
}
