// SPDX-License-Identifier: BSD-2-Clause
#include "model/log_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/progress_line.h"
#include "base/u64_map.h"
#include "base/util.h"

#define LEFT_MAX 4096		/* maximum number of calls without exits that one exit can end */
#define TAILS_PER_S 100000	/* a jump and the entry that follows it are at most 10 us apart */
#define TAILS_MAX 256		/* maximum number of calls that jump to one another; no program's log has more */
#define OPEN_FIRST (256u << 10) /* with this capacity in use, capacity of threads without open calls is released */

struct walk {
	struct xp_log_visitor *visitor;
	struct xp_u64_map by_id; /* thread by PID and TID */
	struct xp_walked_thread *threads;
	size_t count, room;
	size_t open;	     /* capacity of the open calls of all threads */
	size_t open_max;     /* for now */
	bool took_back;	     /* the last release gained little */
	uint64_t last_key;   /* thread of the previous record, */
	uint32_t last_index; /* index of that thread plus one; 0: none */
	size_t entered;	     /* index plus one of the thread whose arguments may follow; 0: none */
	uint32_t function;   /* function of the current record; XP_MODEL_NONE: none */
};

/* ---- records ---- */

struct cursor {
	struct xp_fdr_reader reader;
	struct xp_file_view *view;
	struct xp_progress_line line;
	uint64_t release; /* offset at which the next window of the file is released */
};

/* Starts to read a log. Call end_reading() also after an error. Returns 0, or -EBADMSG with *violation set. */
static int begin_reading(struct cursor *cursor, struct xp_file_view *view, struct xp_violation *violation)
{
	cursor->view = view;
	cursor->release = XP_FILE_VIEW_WINDOW;
	xp_progress_line_begin(&cursor->line, "reading calls", XP_PROGRESS_BYTES, view->size);
	return xp_fdr_reader_init(&cursor->reader, view->bytes, view->size, violation);
}

/* Returns the result of xp_fdr_reader_next(). */
static int read_next(struct cursor *cursor, struct xp_fdr_record *record, struct xp_violation *violation)
{
	int more = xp_fdr_reader_next(&cursor->reader, record, violation);

	if (more <= 0)
		return more;
	xp_progress_line_step(&cursor->line, record->offset);
	if (record->offset >= cursor->release) {
		xp_file_view_release(cursor->view, record->offset);
		cursor->release = record->offset + XP_FILE_VIEW_WINDOW;
	}
	return more;
}

static void end_reading(struct cursor *cursor)
{
	xp_progress_line_end(&cursor->line);
}

int xp_log_find_functions(struct xp_log_functions *functions, size_t process, struct xp_file_view *view)
{
	struct xp_violation violation;
	struct cursor cursor;
	struct xp_fdr_record record;
	int err = begin_reading(&cursor, view, &violation) ? -E2BIG : 0;
	uint32_t index;

	while (!err && read_next(&cursor, &record, &violation) > 0)
		if (record.is_function)
			err = xp_log_functions_find(functions, process, record.function.fn_id, &index);
	end_reading(&cursor);
	return err == -E2BIG ? 0 : err;
}

/* Returns the time of the first call or return of a log; UINT64_MAX: none. */
static uint64_t first_tsc(struct xp_file_view *view)
{
	struct xp_violation violation;
	struct cursor cursor;
	struct xp_fdr_record record;
	uint64_t first = UINT64_MAX;
	int err = begin_reading(&cursor, view, &violation);

	while (!err && read_next(&cursor, &record, &violation) > 0)
		if (record.is_function)
			first = XP_MIN(first, record.tsc);
	end_reading(&cursor);
	return first;
}

/* ---- threads ---- */

static int add_thread(struct walk *walk, uint64_t key, const struct xp_fdr_record *record)
{
	struct xp_log_visitor *visitor = walk->visitor;
	struct xp_walked_thread thread = { .pid = (uint32_t)record->pid, .tid = (uint32_t)record->tid };
	int err;

	if (record->pid <= 0 && visitor->source)
		thread.pid = (uint32_t)visitor->source->recorded->processes[visitor->process].pid;
	if (XP_ARRAY_RESERVE(walk->threads, walk->room, walk->count + 1))
		return -ENOMEM;
	err = visitor->add_thread ? visitor->add_thread(visitor->arg, &thread) : 0;
	if (!err && !xp_u64_map_add(&walk->by_id, key, (uint32_t)walk->count))
		err = -ENOMEM;
	if (!err)
		walk->threads[walk->count++] = thread;
	return err;
}

/* *thread: NULL beyond the limit. */
static int find_thread(struct walk *walk, const struct xp_fdr_record *record, struct xp_walked_thread **thread)
{
	uint64_t key = (uint64_t)(uint32_t)record->pid << 32 | (uint32_t)record->tid;
	const uint32_t *known;
	int err;

	*thread = NULL;
	if (!walk->last_index || walk->last_key != key) {
		known = xp_u64_map_find(&walk->by_id, key);
		if (!known && walk->count == XP_LOG_WALK_THREADS_MAX)
			return 0;
		err = known ? 0 : add_thread(walk, key, record);
		if (err)
			return err;
		walk->last_key = key;
		walk->last_index = known ? *known + 1 : (uint32_t)walk->count;
	}
	*thread = &walk->threads[walk->last_index - 1];
	return 0;
}

/* Releases capacity of threads without open calls. Returns whether there is enough capacity then. */
static bool take_back(struct walk *walk, size_t more)
{
	size_t before = walk->open;

	if (walk->took_back)
		return false;
	for (size_t i = 0; i < walk->count; i++) {
		struct xp_walked_thread *thread = &walk->threads[i];

		if (thread->depth || !thread->room)
			continue;
		walk->open -= thread->room;
		free(thread->calls);
		thread->calls = NULL;
		thread->room = 0;
	}
	walk->took_back = walk->open_max == XP_LOG_WALK_OPEN_MAX && before - walk->open < XP_LOG_WALK_OPEN_MAX / 8;
	walk->open_max = XP_MIN(XP_MAX(2 * (walk->open + more), (size_t)OPEN_FIRST), (size_t)XP_LOG_WALK_OPEN_MAX);
	return walk->open + more <= walk->open_max;
}

/* ---- calls ---- */

static int count_refused(struct walk *walk, int err)
{
	walk->visitor->refused += err == -E2BIG;
	return err == -E2BIG ? 0 : err;
}

static int enter(struct walk *walk, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct xp_log_visitor *visitor = walk->visitor;
	size_t room = thread->room, more = XP_MAX(room / 2, (size_t)4);
	int err;

	if (thread->depth == room) {
		if (walk->open + more > walk->open_max && !take_back(walk, more)) {
			visitor->dropped++;
			return 0;
		}
		room = thread->room;
		if (XP_ARRAY_RESERVE(thread->calls, thread->room, thread->depth + 1))
			return -ENOMEM;
		walk->open += thread->room - room;
	}
	thread->calls[thread->depth++] = (struct xp_walked_call){ .function = walk->function, .tsc = record->tsc };
	err = visitor->enter ? visitor->enter(visitor->arg, thread, record) : 0;
	if (err)
		thread->depth--;
	else if (record->kind == XP_FDR_ENTER_ARGS)
		walk->entered = (size_t)(thread - walk->threads) + 1;
	return err;
}

static int abandon(struct walk *walk, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct xp_log_visitor *visitor = walk->visitor;
	int err = visitor->abandon ? visitor->abandon(visitor->arg, thread, record) : 0;

	thread->depth--;
	return count_refused(walk, err);
}

/* Also ends the calls that have jumped to it. */
static int end_innermost(struct walk *walk, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct xp_log_visitor *visitor = walk->visitor;
	int err = 0;

	do {
		err = visitor->leave ? visitor->leave(visitor->arg, thread, record) : 0;
		thread->depth--;
	} while (!err && thread->depth && thread->calls[thread->depth - 1].is_tail);
	return err;
}

/* Returns whether a call jumps to the next entry. A recursion is assumed to be a new call: both look the same. */
static bool jumps_to(const struct walk *walk, const struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	if ((record->kind != XP_FDR_ENTER && record->kind != XP_FDR_ENTER_ARGS) ||
	    record->tsc - thread->tail_tsc > walk->visitor->hz / TAILS_PER_S)
		return false;
	for (size_t n = 0, i = thread->depth; i && (!n || thread->calls[i - 1].is_tail); i--)
		if (++n > TAILS_MAX || thread->calls[i - 1].function == walk->function)
			return false;
	return true;
}

/* Handles the record after a tail exit; NULL: the log ends. */
static int end_tail(struct walk *walk, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	const struct xp_fdr_record end = { .kind = XP_FDR_TAIL_EXIT, .tsc = thread->tail_tsc };

	if (record && jumps_to(walk, thread, record)) {
		thread->calls[thread->depth - 1].is_tail = true;
		thread->tail_tsc = 0;
		return 0;
	}
	thread->tail_tsc = 0;
	return end_innermost(walk, thread, &end);
}

static int leave(struct walk *walk, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	size_t depth = thread->depth, lowest = depth - XP_MIN(depth, (size_t)LEFT_MAX);
	int err = 0;

	while (depth > lowest && thread->calls[depth - 1].function != walk->function)
		depth--;
	if (depth == lowest)
		return 0;
	while (!err && thread->depth > depth)
		err = abandon(walk, thread, record);
	if (!err && record->kind == XP_FDR_TAIL_EXIT && walk->visitor->follows_tail &&
	    walk->visitor->follows_tail(walk->visitor->arg, thread)) {
		thread->tail_tsc = record->tsc;
		return 0;
	}
	return err ?: end_innermost(walk, thread, record);
}

/* ---- logs ---- */

/* Returns 0, -ENOMEM, or -E2BIG beyond the limit of functions. */
static int find_function(struct walk *walk, const struct xp_fdr_record *record)
{
	struct xp_log_visitor *visitor = walk->visitor;

	walk->function = XP_MODEL_NONE;
	if (!record->is_function)
		return 0;
	if (visitor->functions)
		return xp_log_functions_find(visitor->functions, visitor->process, record->function.fn_id,
					     &walk->function);
	walk->function = record->function.fn_id;
	return 0;
}

static int take(struct walk *walk, const struct xp_fdr_record *record)
{
	struct xp_log_visitor *visitor = walk->visitor;
	bool is_event = record->kind == XP_FDR_CUSTOM_EVENT || record->kind == XP_FDR_TYPED_EVENT;
	bool is_entry = record->kind == XP_FDR_ENTER || record->kind == XP_FDR_ENTER_ARGS;
	struct xp_walked_thread *thread;
	int err, full;

	if (!record->is_function && !(is_event && visitor->event)) {
		if (record->kind != XP_FDR_CALL_ARGUMENT || !walk->entered || !visitor->argument)
			return 0;
		return visitor->argument(visitor->arg, &walk->threads[walk->entered - 1], record->argument);
	}
	walk->entered = 0;
	visitor->last_tsc = XP_MAX(visitor->last_tsc, record->tsc);
	full = find_function(walk, record);
	err = full == -E2BIG ? 0 : full;
	if (!err && visitor->record)
		err = visitor->record(visitor->arg, record, walk->function);
	err = err ?: full ?: find_thread(walk, record, &thread);
	if (err == -E2BIG && record->is_function && !is_entry)
		return 0; /* the entry was counted */
	if (err)
		return count_refused(walk, err);
	if (!thread)
		visitor->dropped += is_entry || !record->is_function;
	if (!thread || thread->is_left_out)
		return 0;
	if (thread->tail_tsc && record->is_function)
		err = end_tail(walk, thread, record);
	if (!record->is_function)
		err = err ?: visitor->event(visitor->arg, thread, record);
	else if (!err)
		err = is_entry ? enter(walk, thread, record) : leave(walk, thread, record);
	thread->has_records = true;
	return count_refused(walk, err);
}

static int take_all(struct walk *walk, struct cursor *cursor, struct xp_violation *violation)
{
	struct xp_fdr_record record;
	int more, err = 0;

	while (!err && (more = read_next(cursor, &record, violation)) > 0)
		err = take(walk, &record);
	for (size_t i = 0; !err && i < walk->count; i++)
		err = walk->threads[i].tail_tsc ? end_tail(walk, &walk->threads[i], NULL) : 0;
	for (size_t i = 0; i < walk->count; i++)
		while (!err && walk->threads[i].depth)
			err = abandon(walk, &walk->threads[i], NULL);
	return err ? err : more;
}

bool xp_log_same_clock(uint64_t hz, uint64_t other_hz)
{
	uint64_t difference = XP_MAX(hz, other_hz) - XP_MIN(hz, other_hz);

	return difference <= hz / XP_LOG_CLOCK_ERROR;
}

/* Returns what the manifest contains about the recording of this log. */
static struct xp_facts_summary summary_of(const struct xp_log_visitor *visitor)
{
	const struct xp_recorded *recorded = visitor->source ? visitor->source->recorded : NULL;
	const struct xp_facts *facts =
	    recorded ? xp_recorded_facts(recorded, recorded->processes[visitor->process].directory) : NULL;

	return facts ? *xp_facts_summary(facts) : (struct xp_facts_summary){ 0 };
}

/* The manifest has the last estimate of the frequency, a log the first. */
static uint64_t best_hz(const struct xp_log_visitor *visitor, uint64_t log_hz)
{
	uint64_t hz = summary_of(visitor).tsc_hz;

	return hz && xp_log_same_clock(log_hz, hz) ? hz : log_hz;
}

static uint64_t tsc_at(const struct xp_log_visitor *visitor, uint64_t ns)
{
	uint64_t offset_ns = visitor->source->offset_ns, away_ns = ns > offset_ns ? ns - offset_ns : offset_ns - ns;
	uint64_t cycles = xp_scale(away_ns, visitor->hz, XP_NS_PER_S);

	return ns > offset_ns ? visitor->start_tsc + cycles : visitor->start_tsc - XP_MIN(visitor->start_tsc, cycles);
}

static void set_window(struct xp_log_visitor *visitor)
{
	const struct xp_select none = { 0 }, *select = visitor->source ? visitor->source->select : &none;
	const struct xp_facts_summary summary = summary_of(visitor);

	visitor->part_tsc = summary.start_tsc;
	visitor->goes_on_tsc = summary.goes_on_tsc;
	visitor->from_tsc = select->from_ns ? tsc_at(visitor, select->from_ns) : 0;
	visitor->to_tsc = select->to_ns ? tsc_at(visitor, select->to_ns) : UINT64_MAX;
	visitor->last_tsc = 0;
}

static void walk_free(struct walk *walk)
{
	for (size_t i = 0; i < walk->count; i++) {
		if (walk->threads[i].own)
			walk->visitor->free_own(walk->threads[i].own);
		free(walk->threads[i].calls);
	}
	free(walk->threads);
	xp_u64_map_free(&walk->by_id);
}

int xp_log_walk_view(struct xp_log_visitor *visitor, struct xp_file_view *view, struct xp_violation *violation)
{
	struct walk walk = { .visitor = visitor, .open_max = OPEN_FIRST };
	struct cursor cursor;
	int err = begin_reading(&cursor, view, violation);

	if (!err) {
		visitor->hz = best_hz(visitor, cursor.reader.header.cycle_hz);
		set_window(visitor);
		err = visitor->begin ? visitor->begin(visitor->arg, view, violation) : 0;
		err = err ?: take_all(&walk, &cursor, violation);
		walk_free(&walk);
		if (visitor->end)
			visitor->end(visitor->arg);
	}
	end_reading(&cursor);
	return err;
}

/* If no manifest has the start of the recording, selected times count from the first record of all logs. */
static uint64_t start_of(const struct xp_model_source *source)
{
	uint64_t start_tsc = xp_facts_summary(source->facts)->start_tsc, first = UINT64_MAX;
	struct xp_file_view view;

	if (start_tsc || !(source->select->from_ns || source->select->to_ns))
		return start_tsc;
	for (size_t i = 0; i < source->recorded->process_count; i++) {
		const char *path = source->recorded->processes[i].log;

		/* Skip unreadable logs here: reading them later reports the error. */
		if (!path || xp_file_view_open(&view, AT_FDCWD, path))
			continue;
		first = XP_MIN(first, first_tsc(&view));
		xp_file_view_close(&view);
	}
	return first == UINT64_MAX ? 0 : first;
}

uint64_t xp_log_walk_ns(const struct xp_log_visitor *visitor, uint64_t start_ns, uint64_t tsc)
{
	uint64_t start_tsc = visitor->start_tsc, cycles = tsc > start_tsc ? tsc - start_tsc : start_tsc - tsc;
	uint64_t ns = xp_scale(cycles, XP_NS_PER_S, visitor->hz), at_ns = start_ns + visitor->source->offset_ns;

	return tsc > start_tsc ? xp_offset(at_ns, 0, ns) : xp_offset(at_ns, ns, 0);
}

static bool is_wanted(const struct xp_log_visitor *visitor, const struct xp_model_source *source, size_t index)
{
	const struct xp_recorded_process *process = &source->recorded->processes[index];

	return process->log && (!source->directory || !strcmp(source->directory, process->directory)) &&
	       (!visitor->wants || visitor->wants(visitor->arg, index));
}

static int walk_log(struct xp_log_visitor *visitor, const char *path, bool *broken)
{
	struct xp_violation violation;
	struct xp_file_view view;
	int err = xp_file_view_open(&view, AT_FDCWD, path);

	if (err) {
		if (broken)
			xp_error("%s: cannot read it: %s", path, xp_file_view_error(err));
		err = err == -ENOMEM ? err : -EBADMSG;
	} else {
		err = xp_log_walk_view(visitor, &view, &violation);
		xp_file_view_close(&view);
		if (err == -EBADMSG && broken)
			xp_error("%s: 0x%" PRIx64 ": %s", path, violation.offset, violation.text);
	}
	if (err == -EBADMSG && broken)
		*broken = true;
	return err == -EBADMSG ? 0 : err;
}

int xp_log_walk(struct xp_log_visitor *visitor, const struct xp_model_source *source, bool *broken)
{
	uint64_t untimed;
	int err = 0;

	visitor->source = source;
	visitor->start_tsc = start_of(source);
	for (size_t i = 0; !err && i < source->recorded->process_count; i++) {
		visitor->process = i;
		if (is_wanted(visitor, source, i))
			err = walk_log(visitor, source->recorded->processes[i].log, broken);
	}
	untimed = visitor->dropped + (visitor->counts_all ? visitor->refused : 0);
	if (!err && broken && untimed)
		xp_warn("%" PRIu64 " call%s %s: too many calls or threads at the same time", untimed,
			xp_plural_s_are(untimed), visitor->counts_all ? "counted but not timed" : "missing");
	return err;
}

int xp_log_walk_parts(struct xp_log_visitor *visitor, const struct xp_model_source *source, bool *broken)
{
	struct xp_model_source part;
	int err = 0;

	for (size_t i = 0; !err && i < source->recorded->directory_count; i++) {
		part = xp_model_source_part(source, i);
		visitor->dropped = visitor->refused = 0;
		err = xp_log_walk(visitor, &part, broken);
	}
	return err;
}
