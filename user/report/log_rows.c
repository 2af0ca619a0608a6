// SPDX-License-Identifier: BSD-2-Clause
#include "report/log_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file_view.h"
#include "base/util.h"
#include "model/log_walk.h"

/* ---- reading ---- */

static int find_functions(struct xp_report_log *log, struct xp_report_groups *groups, size_t process,
			  const char *instr_map)
{
	const struct xp_recorded_process *from = &groups->recorded->processes[process];
	uint32_t count = 0;

	for (size_t i = 0; i < log->calls.function_count; i++)
		count = XP_MAX(count, log->calls.functions[i].function_id);
	for (size_t i = 0; i < from->taken_out_count; i++)
		count = XP_MAX(count, from->taken_out[i].id);
	return xp_report_functions_find(&log->functions, XP_MIN(count, XP_REPORT_FUNCTIONS_MAX), from, instr_map,
					groups->tables->model.symbolizer);
}

int xp_report_log_read(struct xp_report_log *log, struct xp_report_groups *groups, size_t process,
		       const char *instr_map, bool *broken)
{
	const struct xp_call_log_options options = {
		.memory = &groups->tables->memory,
		.by_thread = groups->tables->by == XP_MODEL_BY_THREAD,
	};
	const char *path = groups->recorded->processes[process].log;
	struct xp_violation violation;
	struct xp_file_view view;
	int err = xp_file_view_open(&view, AT_FDCWD, path);

	if (err) {
		xp_error("%s: cannot read it: %s", path, xp_file_view_error(err));
		*broken = true;
		return 0;
	}
	err = xp_call_log_read(&log->calls, &view, &options, &violation);
	xp_file_view_close(&view);
	if (err == -EBADMSG) {
		xp_error("%s: 0x%" PRIx64 ": %s", path, violation.offset, violation.text);
		*broken = true;
		err = 0;
	}
	if (err)
		return err;
	if (log->calls.untimed)
		xp_warn("%s: %" PRIu64 " call%s counted but not timed: " XP_LOG_WALK_DROPPED, path, log->calls.untimed,
			xp_plural_s_are(log->calls.untimed));
	log->has_log = true;
	return find_functions(log, groups, process, instr_map);
}

void xp_report_log_free(struct xp_report_log *log)
{
	xp_report_functions_free(&log->functions);
	xp_call_log_free(&log->calls);
}

/* ---- counting ---- */

/* The table shows a function under the name that its samples have, if it has any. */
static int describe(const struct xp_report_log *log, const struct xp_report_groups *groups, uint32_t id,
		    struct xp_report_row *like)
{
	struct xp_symbolizer *symbolizer = groups->tables->model.symbolizer;
	const struct xp_report_function *function = id < log->functions.count ? &log->functions.all[id] : NULL;
	char name[32];

	*like = (struct xp_report_row){ .object = function ? function->object : NULL };
	if (function && function->has_place) {
		const struct xp_place *place = xp_symbolizer_place(symbolizer, function->place);

		if (place->frame_count)
			like->function = place->frames[place->frame_count - 1].function;
	}
	if (!like->function) {
		snprintf(name, sizeof(name), "fn_%" PRIu32, id);
		like->function = xp_symbolizer_text(symbolizer, name);
	}
	return like->function ? 0 : -ENOMEM;
}

/* A function whose object is unknown may be known from samples. */
static struct xp_report_row *row_of(const struct xp_report_groups *groups, const struct xp_report_place *place,
				    const struct xp_report_row *like)
{
	struct xp_report_row *known =
	    like->object ? NULL : xp_report_row_named(place->table, place->index, like->function);

	return known ? known : xp_report_row(groups->tables, place, like);
}

/* To ns since the start of the recording: that of the manifest or of the log. */
static void set_start(struct xp_durations *durations, const struct xp_report_log *log, uint64_t start_tsc)
{
	uint64_t start = start_tsc ? start_tsc : log->calls.first_tsc;

	durations->max_at = xp_scale(durations->max_at - XP_MIN(start, durations->max_at), XP_NS_PER_S,
				     XP_MAX(log->calls.cycle_hz, UINT64_C(1)));
}

static int count_function(struct xp_report_log *log, struct xp_report_groups *groups, size_t process,
			  struct xp_calls *calls)
{
	struct xp_report_place places[2];
	struct xp_report_row like;
	size_t table, count;
	int err = describe(log, groups, calls->function_id, &like);

	if (!err)
		err = xp_report_groups_logged(groups, process, (uint32_t)calls->tid, &table);
	if (err)
		return err;
	set_start(&calls->durations, log, xp_report_groups_start_tsc(groups, process));
	count = xp_report_groups_places(groups, table, places);
	/* The table of all comes first: the last one takes the durations over. */
	for (size_t i = count; !err && i; i--) {
		struct xp_report_place *place = &places[i - 1];
		struct xp_report_row *row = row_of(groups, place, &like);

		if (!row)
			return -ENOMEM;
		place->table->has_calls = true;
		place->table->calls += calls->calls;
		place->table->open += calls->calls - calls->ended;
		groups->tables->in_others += row->is_others ? calls->calls : 0;
		row->calls += calls->calls;
		row->ended += calls->ended;
		if (log->calls.cycle_hz)
			row->total_s += (double)calls->cycles / (double)log->calls.cycle_hz;
		err = i > 1 ? xp_durations_merge(&row->durations, &groups->tables->memory, &calls->durations)
			    : xp_durations_take(&row->durations, &groups->tables->memory, &calls->durations);
	}
	return err;
}

/* A function that was taken out gets a row even if the log has no call of it, since calls may have happened. */
static int mark_taken_out(const struct xp_report_log *log, struct xp_report_groups *groups, size_t process)
{
	const struct xp_recorded_process *from = &groups->recorded->processes[process];
	struct xp_report_place places[2];
	struct xp_report_row like, *row;
	int err = 0;

	xp_report_groups_places(groups, process, places);
	for (size_t i = 0; !err && i < from->taken_out_count; i++) {
		err = describe(log, groups, from->taken_out[i].id, &like);
		row = err ? NULL : row_of(groups, &places[0], &like);
		if (!row)
			return -ENOMEM;
		row->taken_out = &from->taken_out[i];
		row->recorded_s = from->duration_s;
	}
	return err;
}

/* Calls beyond the limits of functions and threads belong to no row. */
static void count_rest(const struct xp_report_log *log, struct xp_report_groups *groups, size_t process)
{
	struct xp_report_place places[2];
	uint64_t calls = log->calls.calls, open = log->calls.open;
	size_t count = xp_report_groups_places(groups, process, places);

	for (size_t i = 0; i < log->calls.function_count; i++) {
		calls -= log->calls.functions[i].calls;
		open -= log->calls.functions[i].calls - log->calls.functions[i].ended;
	}
	for (size_t i = 0; i < count; i++) {
		places[i].table->has_calls = true;
		places[i].table->calls += calls;
		places[i].table->open += open;
	}
}

int xp_report_log_count(struct xp_report_log *log, struct xp_report_groups *groups, size_t process)
{
	int err = 0;

	if (!log->has_log)
		return 0;
	for (size_t i = 0; !err && i < log->calls.function_count; i++)
		err = count_function(log, groups, process, &log->calls.functions[i]);
	if (err || groups->tables->by != XP_MODEL_BY_PROCESS)
		return err;
	count_rest(log, groups, process);
	return mark_taken_out(log, groups, process);
}
