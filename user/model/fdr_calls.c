// SPDX-License-Identifier: BSD-2-Clause
#include "model/fdr_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "model/log_walk.h"

#define FUNCTIONS_MAX (4u << 20)
#define NS_MAX 9e18 /* a clock of 1 Hz: more does not fit */

struct reading {
	struct xp_call_log *log;
	const struct xp_call_log_options *options;
	struct xp_log_visitor visitor;
	double ns_per_cycle;
	bool has_begun; /* the log's first_tsc is known */
	size_t function_room;
	struct xp_u64_map functions; /* by id, and by TID if threads are told apart */
	uint32_t function;	     /* of the current record */
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

static int begin(void *arg, struct xp_file_view *view, struct xp_violation *violation)
{
	struct reading *reading = arg;
	uint64_t hz = reading->visitor.hz;

	(void)view;
	(void)violation;
	reading->log->cycle_hz = hz;
	reading->ns_per_cycle = hz ? (double)XP_NS_PER_S / (double)hz : 0;
	return 0;
}

/* A call counts also if there is no room to find its exit. */
static int count(void *arg, const struct xp_fdr_record *record)
{
	bool entry = record->kind == XP_FDR_ENTER || record->kind == XP_FDR_ENTER_ARGS;
	struct reading *reading = arg;
	int err;

	if (!reading->has_begun)
		reading->log->first_tsc = record->tsc;
	reading->has_begun = true;
	reading->log->calls += entry;
	err = function_index(reading, record, &reading->function);
	if (!err)
		reading->log->functions[reading->function].calls += entry;
	return err;
}

static int enter(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	(void)record;
	thread->calls[thread->depth - 1].mark = ((struct reading *)arg)->function;
	return 0;
}

static int leave(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct reading *reading = arg;
	uint64_t from_tsc = thread->calls[thread->depth - 1].tsc, cycles = record->tsc - from_tsc;
	struct xp_calls *calls = &reading->log->functions[thread->calls[thread->depth - 1].mark];

	if (record->tsc < from_tsc)
		return 0;
	calls->ended++;
	calls->cycles += cycles;
	if (!reading->options->memory)
		return 0;
	return xp_durations_add(&calls->durations, reading->options->memory,
				(uint64_t)XP_MIN((double)cycles * reading->ns_per_cycle + 0.5, NS_MAX), from_tsc,
				(uint32_t)record->tid);
}

int xp_call_log_read(struct xp_call_log *log, struct xp_file_view *view, const struct xp_call_log_options *options,
		     struct xp_violation *violation)
{
	struct reading reading = {
		.log = log,
		.options = options,
		.visitor = { .begin = begin, .record = count, .enter = enter, .leave = leave, .arg = &reading },
	};
	int err;

	*log = (struct xp_call_log){ .memory = options->memory };
	err = xp_log_walk_view(&reading.visitor, view, violation);
	xp_u64_map_free(&reading.functions);
	log->open = log->calls;
	log->untimed = reading.visitor.dropped + reading.visitor.refused;
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
