// SPDX-License-Identifier: BSD-2-Clause
#include "report/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file_view.h"
#include "base/text.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "format/fdr_reader.h"
#include "report/model_calls.h"
#include "report/timeline_names.h"

#define LEFT_MAX 4096	     /* most calls that one exit can find without exits */
#define EVENT_BYTES_MAX 1024 /* of an event's data that are shown */

/* Ids of names beside those of functions (xp_timeline_names_get()). */
#define CUSTOM_EVENT_ID (1ull << 32 | 1u << 30)
#define TYPED_EVENT_ID (1ull << 32 | 1u << 31)			     /* and the type */
enum { DATA_ID = XP_PERFETTO_ARGUMENTS_MAX + 1, BYTES_ID, EXIT_ID }; /* below: the number of the argument */

struct open_call {
	uint32_t function;
	uint8_t marks; /* with those of its callers */
	bool is_open;  /* in the timeline */
	uint64_t tsc;
};

struct thread {
	bool is_selected, has_records;
	const char *name; /* in the manifest; NULL: unknown */
	uint32_t sequence;
	struct open_call *calls;
	size_t depth, room;
	size_t shown; /* of these, those that are in the timeline if they are selected */
};

/* A log while it is read. */
struct reading {
	struct xp_perfetto *perfetto;
	const struct xp_model_source *source;
	const struct xp_timeline_names *names;
	struct xp_timeline_counts *counts;
	size_t process; /* of the recording */
	uint64_t hz;
	uint64_t start_tsc, start_ns; /* the same time */
	uint64_t window_tsc;	      /* what the selected times count from */
	uint64_t from_tsc, to_tsc, last_tsc;
	struct xp_u64_map thread_map; /* by PID and TID */
	struct thread *threads;
	size_t thread_count, thread_room;
	size_t open; /* capacity of all threads */
	/* An entry whose arguments may follow. */
	struct xp_perfetto_event entry;
	const struct thread *entry_thread; /* NULL: none */
	uint32_t entry_function;
	bool takes_arguments;
};

static uint64_t scale(uint64_t number, uint64_t to, uint64_t from)
{
	unsigned __int128 scaled = from ? (unsigned __int128)number * to / from : number;

	return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}

uint64_t xp_timeline_ns(uint64_t tsc, uint64_t hz)
{
	return scale(tsc, XP_NS_PER_S, hz);
}

/* From the start of the recording on, like samples: the rate of the clock is not exact. */
static uint64_t time_of(const struct reading *reading, uint64_t tsc)
{
	uint64_t at = XP_MIN(XP_MAX(tsc, reading->from_tsc), reading->to_tsc), before;

	if (at >= reading->start_tsc)
		return reading->start_ns + xp_timeline_ns(at - reading->start_tsc, reading->hz);
	before = xp_timeline_ns(reading->start_tsc - at, reading->hz);
	return reading->start_ns - XP_MIN(reading->start_ns, before);
}

/* ---- threads ---- */

static int add_thread(struct reading *reading, uint64_t pid, uint64_t tid, struct thread *thread)
{
	const struct xp_recorded_process *from = &reading->source->recorded->processes[reading->process];
	const char *comm = xp_facts_comm(reading->source->facts, from->pid, from->image);
	const char *thread_comm = xp_facts_thread(reading->source->facts, from->pid, from->image, tid);
	char process_name[XP_SHORT_TEXT_BYTES], name[XP_SHORT_TEXT_BYTES];
	const struct xp_perfetto_thread described = {
		.pid = (uint32_t)pid,
		.tid = (uint32_t)tid,
		.process_name = process_name,
		.name = name,
	};
	int err;

	xp_clean_text(process_name, sizeof(process_name), comm ? comm : from->name);
	xp_clean_text(name, sizeof(name), thread_comm ? thread_comm : process_name);
	thread->name = thread_comm;
	thread->is_selected = xp_select_thread(reading->source->select, pid, tid, process_name, name);
	if (!thread->is_selected)
		return 0;
	err = xp_perfetto_thread(reading->perfetto, &described);
	return err ? err : xp_perfetto_sequence(reading->perfetto, described.pid, described.tid, &thread->sequence);
}

static int thread_of(struct reading *reading, const struct xp_fdr_record *record, struct thread **thread)
{
	uint64_t key = (uint64_t)(uint32_t)record->pid << 32 | (uint32_t)record->tid;
	uint32_t *index = xp_u64_map_find(&reading->thread_map, key);
	uint64_t pid =
	    record->pid > 0 ? (uint32_t)record->pid : reading->source->recorded->processes[reading->process].pid;
	int err;

	if (!index) {
		if (XP_ARRAY_RESERVE(reading->threads, reading->thread_room, reading->thread_count + 1))
			return -ENOMEM;
		reading->threads[reading->thread_count] = (struct thread){ 0 };
		err = add_thread(reading, pid, (uint32_t)record->tid, &reading->threads[reading->thread_count]);
		if (err)
			return err;
		index = xp_u64_map_add(&reading->thread_map, key, (uint32_t)reading->thread_count);
		if (!index)
			return -ENOMEM;
		reading->thread_count++;
	}
	*thread = &reading->threads[*index];
	return 0;
}

/* ---- calls ---- */

/* Writes the entry whose arguments are complete. */
static int write_entry(struct reading *reading)
{
	char room[XP_TIMELINE_UNNAMED_BYTES];
	const struct thread *thread = reading->entry_thread;
	uint8_t marks;

	if (!thread)
		return 0;
	reading->entry.name.text = xp_timeline_names_get(reading->names, reading->process, reading->entry_function,
							 room, &reading->entry.name.id, &marks);
	reading->counts->written++;
	reading->takes_arguments = false;
	reading->entry_thread = NULL;
	return xp_perfetto_event(reading->perfetto, thread->sequence, &reading->entry);
}

/* Begins the slices of all calls that are open. The last one waits for its arguments. */
static int show_calls(struct reading *reading, struct thread *thread)
{
	int err = 0;

	for (; !err && thread->shown < thread->depth; thread->shown++) {
		struct open_call *call = &thread->calls[thread->shown];

		call->is_open = xp_select_marked(reading->source->select, call->marks) && call->tsc < reading->to_tsc;
		if (!call->is_open)
			continue;
		err = write_entry(reading);
		reading->entry =
		    (struct xp_perfetto_event){ .type = XP_PERFETTO_BEGIN, .time_ns = time_of(reading, call->tsc) };
		reading->entry_thread = thread;
		reading->entry_function = call->function;
	}
	return err;
}

static int enter(struct reading *reading, struct thread *thread, uint32_t id, uint64_t tsc)
{
	struct open_call call = { .function = id, .tsc = tsc };
	size_t room = thread->room;

	if (reading->source->select->function_count) {
		char name[XP_TIMELINE_UNNAMED_BYTES];
		uint64_t number;

		xp_timeline_names_get(reading->names, reading->process, id, name, &number, &call.marks);
		call.marks |= thread->depth ? thread->calls[thread->depth - 1].marks : 0;
	}
	if (thread->depth == thread->room && reading->open >= XP_TIMELINE_CALLS_OPEN_MAX)
		return -E2BIG;
	if (XP_ARRAY_RESERVE(thread->calls, thread->room, thread->depth + 1))
		return -ENOMEM;
	reading->open += thread->room - room;
	thread->calls[thread->depth++] = call;
	return tsc >= reading->from_tsc ? show_calls(reading, thread) : 0;
}

/* Ends the innermost call. */
static int end_call(struct reading *reading, struct thread *thread, uint64_t tsc, bool has_exit)
{
	struct xp_perfetto_event event = { .type = XP_PERFETTO_END, .time_ns = time_of(reading, tsc) };
	const struct open_call *call = &thread->calls[--thread->depth];

	thread->shown = XP_MIN(thread->shown, thread->depth);
	if (!call->is_open)
		return 0;
	if (!has_exit) {
		event.arguments[0].name = (struct xp_perfetto_name){ EXIT_ID, "exit" };
		event.arguments[0].text = "not recorded";
		event.argument_count = 1;
	}
	return xp_perfetto_event(reading->perfetto, thread->sequence, &event);
}

/* Calls above the one that ends have no exit. An exit without an entry belongs to a call that began before the log. */
static int leave(struct reading *reading, struct thread *thread, uint32_t id, uint64_t tsc)
{
	size_t depth = thread->depth, lowest = depth - XP_MIN(depth, (size_t)LEFT_MAX);
	int err = 0;

	while (depth > lowest && thread->calls[depth - 1].function != id)
		depth--;
	if (depth == lowest)
		return 0;
	if (tsc >= reading->from_tsc)
		err = show_calls(reading, thread) ?: write_entry(reading);
	while (!err && thread->depth > depth)
		err = end_call(reading, thread, tsc, false);
	return err ? err : end_call(reading, thread, tsc, true);
}

/* ---- events ---- */

/* Writes data as text, or in hexadecimal if they are not. */
static void show_data(char *to, size_t to_size, const uint8_t *data, size_t bytes)
{
	char text[EVENT_BYTES_MAX + 1];

	memcpy(text, data, bytes);
	text[bytes] = 0;
	xp_clean_text(to, to_size, text);
	if (strlen(text) == bytes && strcmp(to, text) == 0)
		return;
	for (size_t i = 0; i < bytes; i++)
		snprintf(to + 2 * i, to_size - 2 * i, "%02x", data[i]);
}

static int write_event(struct reading *reading, const struct thread *thread, const struct xp_fdr_record *record)
{
	bool is_typed = record->kind == XP_FDR_TYPED_EVENT;
	char data[2 * EVENT_BYTES_MAX + 1], name[32];
	const struct xp_perfetto_event event = {
		.type = XP_PERFETTO_INSTANT,
		.time_ns = time_of(reading, record->tsc),
		.name = { is_typed ? TYPED_EVENT_ID | record->event.type : CUSTOM_EVENT_ID, name },
		.arguments = {
			{ .name = { DATA_ID, "data" }, .text = data },
			{ .name = { BYTES_ID, "bytes" }, .number = record->event.bytes },
		},
		.argument_count = 2,
	};

	if (record->tsc < reading->from_tsc || record->tsc >= reading->to_tsc)
		return 0;
	snprintf(name, sizeof(name), is_typed ? "typed event %u" : "custom event", record->event.type);
	show_data(data, sizeof(data), record->event.data, XP_MIN(record->event.bytes, (uint32_t)EVENT_BYTES_MAX));
	reading->counts->written++;
	return xp_perfetto_event(reading->perfetto, thread->sequence, &event);
}

static void add_argument(struct reading *reading, uint64_t number)
{
	static const char *const names[XP_PERFETTO_ARGUMENTS_MAX] = { "arg1", "arg2", "arg3", "arg4",
								      "arg5", "arg6", "arg7", "arg8" };
	struct xp_perfetto_event *entry = &reading->entry;
	size_t index = entry->argument_count;

	if (index < XP_ARRAY_SIZE(names))
		entry->arguments[entry->argument_count++] =
		    (struct xp_perfetto_argument){ .name = { index + 1, names[index] }, .number = number };
}

/* ---- logs ---- */

static int take_call(struct reading *reading, struct thread *thread, const struct xp_fdr_record *record)
{
	bool is_entry = record->kind == XP_FDR_ENTER || record->kind == XP_FDR_ENTER_ARGS;
	int err;

	if (!is_entry)
		return leave(reading, thread, record->function.fn_id, record->tsc);
	err = enter(reading, thread, record->function.fn_id, record->tsc);
	reading->takes_arguments = !err && reading->entry_thread && record->kind == XP_FDR_ENTER_ARGS &&
				   thread->calls[thread->depth - 1].is_open;
	return err;
}

/* Whether a log says with this event what its thread is called. */
static bool is_name(const struct thread *thread, const struct xp_fdr_record *record)
{
	return !thread->has_records && record->kind == XP_FDR_CUSTOM_EVENT && thread->name &&
	       strlen(thread->name) == record->event.bytes &&
	       memcmp(thread->name, record->event.data, record->event.bytes) == 0;
}

static int take(struct reading *reading, const struct xp_fdr_record *record)
{
	bool is_event =
	    !record->is_function && (record->kind == XP_FDR_CUSTOM_EVENT || record->kind == XP_FDR_TYPED_EVENT);
	struct thread *thread;
	int err;

	if (!record->is_function && record->kind == XP_FDR_CALL_ARGUMENT && reading->takes_arguments)
		add_argument(reading, record->argument);
	if (!record->is_function && !is_event)
		return 0;
	reading->last_tsc = XP_MAX(reading->last_tsc, record->tsc);
	err = write_entry(reading) ?: thread_of(reading, record, &thread);
	if (err || !thread->is_selected)
		return err;
	if (is_event)
		err = is_name(thread, record) ? 0 : write_event(reading, thread, record);
	else
		err = take_call(reading, thread, record);
	thread->has_records = true;
	return err;
}

/* Whether the process runs another program later. */
static bool has_successor(const struct reading *reading)
{
	const struct xp_recorded *recorded = reading->source->recorded;
	const struct xp_recorded_process *process = &recorded->processes[reading->process];

	for (size_t i = 0; i < recorded->process_count; i++)
		if (recorded->processes[i].pid == process->pid && recorded->processes[i].image > process->image)
			return true;
	return false;
}

/* What is open at the end of the log. */
static int end_log(struct reading *reading)
{
	bool ends = has_successor(reading) || reading->last_tsc >= reading->to_tsc;
	int err = write_entry(reading);

	for (size_t i = 0; !err && i < reading->thread_count; i++) {
		struct thread *thread = &reading->threads[i];

		if (reading->last_tsc >= reading->from_tsc)
			err = show_calls(reading, thread) ?: write_entry(reading);
		while (!err && ends && thread->depth)
			err = end_call(reading, thread, reading->last_tsc, false);
	}
	return err;
}

static void set_window(struct reading *reading)
{
	const struct xp_facts_summary *facts = xp_facts_summary(reading->source->facts);
	const struct xp_select *select = reading->source->select;
	uint64_t from = scale(select->from_ns, reading->hz, XP_NS_PER_S);
	uint64_t to = scale(select->to_ns, reading->hz, XP_NS_PER_S);

	reading->start_tsc = facts->start_tsc;
	reading->start_ns = xp_timeline_ns(facts->start_tsc, facts->tsc_hz);
	reading->from_tsc = select->from_ns ? reading->window_tsc + from : 0;
	reading->to_tsc = select->to_ns ? reading->window_tsc + to : UINT64_MAX;
}

static int read_log(struct reading *reading, struct xp_file_view *view, struct xp_violation *violation)
{
	uint64_t release = XP_FILE_VIEW_WINDOW;
	struct xp_fdr_record record;
	struct xp_fdr_reader reader;
	int more, err = xp_fdr_reader_init(&reader, view->bytes, view->size, violation);

	if (err)
		return err;
	reading->hz = reader.header.cycle_hz;
	set_window(reading);
	while (!err && (more = xp_fdr_reader_next(&reader, &record, violation)) > 0) {
		err = take(reading, &record);
		if (err == -E2BIG) {
			reading->counts->dropped++;
			err = 0;
		}
		if (record.offset >= release) {
			xp_file_view_release(view, record.offset);
			release = record.offset + XP_FILE_VIEW_WINDOW;
		}
	}
	return err ?: end_log(reading) ?: more;
}

static void reading_free(struct reading *reading)
{
	for (size_t i = 0; i < reading->thread_count; i++)
		free(reading->threads[i].calls);
	free(reading->threads);
	xp_u64_map_free(&reading->thread_map);
	xp_perfetto_end_sequences(reading->perfetto);
}

static int write_log(struct reading *reading, bool *broken)
{
	const char *path = reading->source->recorded->processes[reading->process].log;
	struct xp_violation violation;
	struct xp_file_view view;
	int err;

	if (!path)
		return 0;
	err = xp_file_view_open(&view, AT_FDCWD, path);
	if (err) {
		xp_error("%s: cannot read it: %s", path, strerror(-err));
		*broken = true;
		return err == -ENOMEM ? err : 0;
	}
	err = read_log(reading, &view, &violation);
	reading_free(reading);
	xp_file_view_close(&view);
	if (err != -EBADMSG)
		return err;
	xp_error("%s: 0x%" PRIx64 ": %s", path, violation.offset, violation.text);
	*broken = true;
	return 0;
}

int xp_timeline_write_calls(struct xp_perfetto *perfetto, const struct xp_model_source *source, bool full_names,
			    struct xp_timeline_counts *counts, bool *broken)
{
	const uint64_t window_tsc = xp_model_calls_start(source);
	struct xp_timeline_names names;
	int err = xp_timeline_names_read(&names, source, full_names, broken);

	*counts = (struct xp_timeline_counts){ 0 };
	for (size_t i = 0; !err && i < source->recorded->process_count; i++) {
		struct reading reading = {
			.perfetto = perfetto,
			.source = source,
			.names = &names,
			.counts = counts,
			.process = i,
			.window_tsc = window_tsc,
		};

		err = write_log(&reading, broken);
	}
	xp_timeline_names_free(&names);
	return err;
}
