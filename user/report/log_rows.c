// SPDX-License-Identifier: BSD-2-Clause
#include "report/log_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "model/log_walk.h"

#define SUMS_MAX (4u << 20)
#define NS_MAX 9e18 /* a clock of 1 Hz could give times that do not fit in 64 bits */

/* The calls of a function in a log. If the report is by thread: of one thread. */
struct xp_report_call_sum {
	size_t process;
	uint32_t function;
	int32_t tid;		       /* 0: all threads */
	uint64_t calls;		       /* entries */
	uint64_t ended;		       /* calls with an exit in the log */
	uint64_t cycles;	       /* sum of the durations, including callees */
	struct xp_durations durations; /* max_at is a TSC, max_where a TID */
	/* When the function was throttled. NULL: never. */
	const struct xp_recorded_taken_out *taken_out;
};

/* The log of a process. */
struct xp_report_log {
	bool is_wanted;
	bool has_begun; /* first_tsc is known */
	uint64_t hz;
	uint64_t first_tsc; /* TSC of the first entry or exit */
	/* Calls, and calls without an exit, that are not in a row yet. */
	uint64_t calls, open;
};

struct reading {
	struct xp_report_logs *logs;
	struct xp_report_log *log; /* the current log */
	struct xp_log_visitor visitor;
	double ns_per_cycle;
	bool by_thread;
	struct xp_u64_map by_function; /* index of the sum, by function and TID */
	uint32_t sum;		       /* index of the sum of the current record; XP_MODEL_NONE: not selected */
};

/* ---- reading ---- */

static bool wants(void *arg, size_t process)
{
	const struct reading *reading = arg;

	return reading->logs->of[process].is_wanted;
}

static int begin(void *arg, struct xp_file_view *view, struct xp_violation *violation)
{
	struct reading *reading = arg;
	uint64_t hz = reading->visitor.hz;

	(void)view;
	(void)violation;
	xp_u64_map_free(&reading->by_function);
	reading->log = &reading->logs->of[reading->visitor.process];
	reading->log->hz = hz;
	reading->ns_per_cycle = hz ? (double)XP_NS_PER_S / (double)hz : 0;
	return 0;
}

/* Returns 0, -E2BIG beyond the limit, or -ENOMEM. */
static int find_sum(struct reading *reading, int32_t tid, uint32_t function)
{
	struct xp_report_logs *logs = reading->logs;
	uint64_t key = (uint64_t)(uint32_t)tid << 32 | function;
	const uint32_t *known = xp_u64_map_find(&reading->by_function, key);

	reading->sum = known ? *known : (uint32_t)logs->count;
	if (known)
		return 0;
	if (logs->count == SUMS_MAX)
		return -E2BIG;
	if (XP_ARRAY_RESERVE(logs->sums, logs->room, logs->count + 1) ||
	    !xp_u64_map_add(&reading->by_function, key, reading->sum))
		return -ENOMEM;
	logs->sums[logs->count++] =
	    (struct xp_report_call_sum){ .process = reading->visitor.process, .function = function, .tid = tid };
	return 0;
}

/* Counts a call. Also counts a call whose exit cannot be found because the limit of open calls is reached. */
static int count_record(void *arg, const struct xp_fdr_record *record, uint32_t function)
{
	bool entry = record->kind == XP_FDR_ENTER || record->kind == XP_FDR_ENTER_ARGS;
	struct reading *reading = arg;
	int err;

	reading->sum = XP_MODEL_NONE;
	if (!xp_log_walk_selects(&reading->visitor, record->tsc) || (!entry && reading->visitor.from_tsc))
		return 0;
	if (!reading->log->has_begun)
		reading->log->first_tsc = record->tsc;
	reading->log->has_begun = true;
	reading->log->calls += entry;
	reading->log->open += entry;
	if (function == XP_MODEL_NONE)
		return 0;
	err = find_sum(reading, reading->by_thread ? record->tid : 0, function);
	if (!err)
		reading->logs->sums[reading->sum].calls += entry;
	return err;
}

static int enter(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	(void)record;
	thread->calls[thread->depth - 1].mark = ((struct reading *)arg)->sum;
	return 0;
}

static int leave(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct reading *reading = arg;
	uint64_t from_tsc = thread->calls[thread->depth - 1].tsc, cycles = record->tsc - from_tsc;
	uint32_t mark = thread->calls[thread->depth - 1].mark;
	struct xp_report_call_sum *sum;

	if (record->tsc < from_tsc || mark == XP_MODEL_NONE)
		return 0;
	sum = &reading->logs->sums[mark];
	sum->ended++;
	sum->cycles += cycles;
	reading->log->open--;
	return xp_durations_add(&sum->durations, &reading->logs->groups->tables->memory,
				(uint64_t)XP_MIN((double)cycles * reading->ns_per_cycle + 0.5, NS_MAX), from_tsc,
				(uint32_t)record->tid);
}

/* Undoes the count of a call that continues in the next part of the recording, because that part counts the call. */
static int abandon(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct reading *reading = arg;
	uint32_t mark = thread->calls[thread->depth - 1].mark;

	if (record || !reading->visitor.goes_on_tsc || mark == XP_MODEL_NONE)
		return 0;
	reading->logs->sums[mark].calls--;
	reading->log->calls--;
	reading->log->open--;
	return 0;
}

/* Adds a row for a throttled function, even if the log has no call of it, because the function may have been called. */
static int add_taken_out(struct reading *reading)
{
	const struct xp_recorded *recorded = reading->logs->groups->recorded;
	uint32_t function;
	int err = 0;

	for (size_t i = 0; !err && i < recorded->process_count; i++) {
		const struct xp_recorded_process *process = &recorded->processes[i];

		xp_u64_map_free(&reading->by_function);
		reading->visitor.process = i;
		for (size_t j = 0; !err && reading->logs->of[i].is_wanted && j < process->taken_out_count; j++) {
			err = xp_log_functions_find(&reading->logs->functions, i, process->taken_out[j].id, &function)
				  ?: find_sum(reading, 0, function);
			if (!err)
				reading->logs->sums[reading->sum].taken_out = &process->taken_out[j];
			err = err == -E2BIG ? 0 : err;
		}
	}
	return err;
}

/* The logs of each directory have their own times. */
static int walk_logs(struct reading *reading, const struct xp_model_source *all, const struct xp_select *times,
		     bool *broken)
{
	int err = times ? 0 : xp_log_walk(&reading->visitor, all, broken);

	for (size_t i = 0; !err && times && i < all->recorded->directory_count; i++) {
		struct xp_model_source source = *all;

		source.facts = all->recorded->directories[i].facts;
		source.directory = all->recorded->directories[i].binaries->directory;
		source.select = &times[i];
		reading->visitor.dropped = reading->visitor.refused = 0;
		err = xp_log_walk(&reading->visitor, &source, broken);
	}
	return err;
}

int xp_report_logs_read(struct xp_report_logs *logs, struct xp_report_groups *groups,
			const struct xp_model_source *source, const struct xp_select *times, const bool *wanted,
			bool *broken)
{
	struct reading reading = {
		.logs = logs,
		.by_thread = groups->tables->by == XP_MODEL_BY_THREAD,
		.visitor = {
			.wants = wants,
			.begin = begin,
			.record = count_record,
			.enter = enter,
			.leave = leave,
			.abandon = abandon,
			.arg = &reading,
			.functions = &logs->functions,
			.counts_all = true,
		},
	};
	int err;

	logs->groups = groups;
	logs->of = calloc(XP_MAX(source->recorded->process_count, (size_t)1), sizeof(*logs->of));
	for (size_t i = 0; logs->of && i < source->recorded->process_count; i++)
		logs->of[i].is_wanted = wanted[i];
	err = logs->of ? xp_log_functions_init(&logs->functions, source, groups->tables->model.symbolizer, broken)
		       : -ENOMEM;
	err = err ?: walk_logs(&reading, source, times, broken);
	if (!err && groups->tables->by == XP_MODEL_BY_PROCESS)
		err = add_taken_out(&reading);
	xp_u64_map_free(&reading.by_function);
	return err ?: xp_log_functions_name(&logs->functions);
}

void xp_report_logs_free(struct xp_report_logs *logs)
{
	for (size_t i = 0; i < logs->count; i++)
		xp_durations_free(&logs->sums[i].durations, &logs->groups->tables->memory);
	free(logs->sums);
	free(logs->of);
	xp_log_functions_free(&logs->functions);
}

/* ---- counting ---- */

/* Finds the row of the function. If its binary is unknown, uses a row with the same name, which samples may have added.
 */
static struct xp_report_row *row_of(const struct xp_report_logs *logs, const struct xp_report_call_sum *sum,
				    const struct xp_report_place *place)
{
	const struct xp_log_function *function = &logs->functions.all[sum->function];
	const struct xp_report_row like = { .function = function->name, .object = function->object };
	struct xp_report_row *known =
	    like.object ? NULL : xp_report_row_named(place->table, place->index, like.function);

	return known ? known : xp_report_row(logs->groups->tables, place, &like);
}

/* Converts max_at to ns since the start of the recording or part, from the manifest, or else since the first record. */
static void set_start(struct xp_durations *durations, const struct xp_report_log *log, uint64_t start_tsc)
{
	uint64_t start = start_tsc ? start_tsc : log->first_tsc;

	durations->max_at =
	    xp_scale(durations->max_at - XP_MIN(start, durations->max_at), XP_NS_PER_S, XP_MAX(log->hz, UINT64_C(1)));
}

static void count_calls(struct xp_report_table *table, uint64_t calls, uint64_t open)
{
	table->has_calls = true;
	table->calls += calls;
	table->open += open;
}

static int count_sum(struct xp_report_logs *logs, struct xp_report_call_sum *sum)
{
	struct xp_report_tables *tables = logs->groups->tables;
	struct xp_report_log *log = &logs->of[sum->process];
	struct xp_report_place places[2];
	size_t table;
	int err = xp_report_groups_logged(logs->groups, sum->process, (uint32_t)sum->tid, &table);

	if (err)
		return err;
	set_start(&sum->durations, log, xp_report_groups_start_tsc(logs->groups, sum->process));
	sum->durations.max_at += xp_report_groups_offset_ns(logs->groups, sum->process);
	log->calls -= sum->calls;
	log->open -= sum->calls - sum->ended;
	/* Do tables->all first, because the table of the group takes over the memory of the durations. */
	for (size_t i = xp_report_groups_places(logs->groups, table, places); !err && i; i--) {
		struct xp_report_row *row;

		if (i > 1 && sum->taken_out && !sum->calls)
			continue;
		row = row_of(logs, sum, &places[i - 1]);
		if (!row)
			return -ENOMEM;
		count_calls(places[i - 1].table, sum->calls, sum->calls - sum->ended);
		tables->in_others += row->is_others ? sum->calls : 0;
		row->calls += sum->calls;
		row->ended += sum->ended;
		if (log->hz)
			row->total_s += (double)sum->cycles / (double)log->hz;
		if (i == 1 && sum->taken_out) {
			row->taken_out = sum->taken_out;
			row->recorded_s = logs->groups->recorded->processes[sum->process].duration_s;
		}
		err = i > 1 ? xp_durations_merge(&row->durations, &tables->memory, &sum->durations)
			    : xp_durations_take(&row->durations, &tables->memory, &sum->durations);
	}
	return err;
}

/* Adds the calls that are in no row, because the limit of functions or threads is reached, to the total of the table.
 */
static void count_rest(const struct xp_report_logs *logs, size_t process)
{
	struct xp_report_place places[2];
	size_t count = xp_report_groups_places(logs->groups, logs->groups->table_of[process], places);

	for (size_t i = 0; i < count; i++)
		count_calls(places[i].table, logs->of[process].calls, logs->of[process].open);
}

int xp_report_logs_count(struct xp_report_logs *logs)
{
	int err = 0;

	for (size_t i = 0; !err && i < logs->count; i++)
		err = count_sum(logs, &logs->sums[i]);
	if (err || logs->groups->tables->by != XP_MODEL_BY_PROCESS)
		return err;
	for (size_t i = 0; i < logs->groups->recorded->process_count; i++)
		if (logs->of && logs->of[i].is_wanted)
			count_rest(logs, i);
	return 0;
}
