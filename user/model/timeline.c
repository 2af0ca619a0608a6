// SPDX-License-Identifier: BSD-2-Clause
#include "model/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "model/log_walk.h"

#define EVENT_BYTES_MAX 1024 /* maximum number of printed bytes of an event's data */

/* IDs of names. The ID of a function is its index plus one. */
#define CUSTOM_EVENT_ID (1ull << 32 | 1u << 30)
#define TYPED_EVENT_ID (1ull << 32 | 1u << 31)			     /* and the type */
enum { DATA_ID = XP_PERFETTO_ARGUMENTS_MAX + 1, BYTES_ID, EXIT_ID }; /* lower IDs: the number of the argument */

/* The mark of a call has the marks of its function and its callers (select.h) in the low byte, and: */
enum {
	IS_SHOWN = 1 << 8, /* shown in the timeline, if selected */
	IS_OPEN = 1 << 9,  /* its slice has begun */
};

struct reading {
	struct xp_perfetto *perfetto;
	const struct xp_model_source *source;
	struct xp_log_functions functions;
	uint64_t *written;
	struct xp_log_visitor visitor;
	uint64_t start_ns;	 /* of the recording, on the trace's clock */
	struct xp_u64_map last;	 /* by PID: the process of the part with its last program */
	struct xp_u64_map going; /* calls whose slices are open at the end of a part, and which the next part repeats */
	bool ends;		 /* the process runs another program after this log */
	/* An entry whose arguments may follow. */
	struct xp_perfetto_event entry;
	bool has_entry;
	uint32_t entry_sequence; /* sequence of its thread */
	uint32_t entry_function;
};

/* Converts from the start of the recording, as for samples, because the frequency of the clock is not exact. */
static uint64_t time_of(const struct reading *reading, uint64_t tsc)
{
	const struct xp_log_visitor *visitor = &reading->visitor;

	return xp_log_walk_ns(visitor, reading->start_ns, XP_MIN(XP_MAX(tsc, visitor->from_tsc), visitor->to_tsc));
}

/* ---- threads ---- */

static const struct xp_recorded_process *process_of(const struct reading *reading)
{
	return &reading->source->recorded->processes[reading->visitor.process];
}

static const struct xp_facts *facts_of(const struct reading *reading)
{
	return reading->visitor.source->facts;
}

static const char *name_of(const struct reading *reading, const struct xp_walked_thread *thread)
{
	const struct xp_recorded_process *from = process_of(reading);

	return xp_facts_thread(facts_of(reading), from->pid, from->image, thread->tid);
}

static int add_thread(void *arg, struct xp_walked_thread *thread)
{
	struct reading *reading = arg;
	const struct xp_recorded_process *from = process_of(reading);
	const char *comm = xp_facts_comm(facts_of(reading), from->pid, from->image);
	const char *thread_comm = name_of(reading, thread);
	char process_name[XP_SHORT_TEXT_BYTES], name[XP_SHORT_TEXT_BYTES];
	const struct xp_perfetto_thread described = {
		.pid = thread->pid,
		.tid = thread->tid,
		.process_name = process_name,
		.name = name,
	};

	xp_clean_text(process_name, sizeof(process_name), comm ? comm : from->name);
	xp_clean_text(name, sizeof(name), thread_comm ? thread_comm : process_name);
	thread->is_left_out = !xp_select_thread(reading->source->select, thread->pid, thread->tid, process_name, name);
	if (thread->is_left_out)
		return 0;
	return xp_perfetto_thread(reading->perfetto, &described)
		   ?: xp_perfetto_sequence(reading->perfetto, described.pid, described.tid, &thread->number);
}

/* ---- calls ---- */

/* Writes the entry, whose arguments are complete now. */
static int write_entry(struct reading *reading)
{
	if (!reading->has_entry)
		return 0;
	reading->entry.name.text = reading->functions.all[reading->entry_function].shown;
	reading->entry.name.id = (uint64_t)reading->entry_function + 1;
	(*reading->written)++;
	reading->has_entry = false;
	return xp_perfetto_event(reading->perfetto, reading->entry_sequence, &reading->entry);
}

static int end_entry(void *arg, const struct xp_fdr_record *record, uint32_t function)
{
	(void)record;
	(void)function;
	return write_entry(arg);
}

/* Begins the slices of all open calls. The last one waits for its arguments. */
static int show_calls(struct reading *reading, const struct xp_walked_thread *thread)
{
	size_t shown = thread->depth;
	int err = 0;

	while (shown && !(thread->calls[shown - 1].mark & IS_SHOWN))
		shown--;
	for (; !err && shown < thread->depth; shown++) {
		struct xp_walked_call *call = &thread->calls[shown];

		call->mark |= IS_SHOWN;
		if (!xp_select_marked(reading->source->select, (uint8_t)call->mark) ||
		    call->tsc >= reading->visitor.to_tsc)
			continue;
		err = write_entry(reading);
		call->mark |= IS_OPEN;
		reading->entry =
		    (struct xp_perfetto_event){ .type = XP_PERFETTO_BEGIN, .time_ns = time_of(reading, call->tsc) };
		reading->has_entry = true;
		reading->entry_sequence = thread->number;
		reading->entry_function = call->function;
	}
	return err;
}

/* The innermost call, in all parts. */
static uint64_t key_of(const struct xp_walked_thread *thread)
{
	const struct xp_walked_call *call = &thread->calls[thread->depth - 1];

	return xp_hash_mix(xp_hash_mix((uint64_t)thread->pid << 32 | thread->tid, call->tsc), call->function);
}

static int enter(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct xp_walked_call *call = &thread->calls[thread->depth - 1];
	struct reading *reading = arg;

	call->mark = reading->functions.all[call->function].marks | (thread->depth > 1 ? (uint8_t)call[-1].mark : 0);
	if (record->tsc < reading->visitor.part_tsc && xp_u64_map_find(&reading->going, key_of(thread))) {
		call->mark |= IS_SHOWN | IS_OPEN;
		return 0;
	}
	return record->tsc >= reading->visitor.from_tsc ? show_calls(reading, thread) : 0;
}

static int add_argument(void *arg, struct xp_walked_thread *thread, uint64_t number)
{
	static const char *const names[] = { "arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7", "arg8" };
	struct reading *reading = arg;
	struct xp_perfetto_event *entry = &reading->entry;
	size_t index = entry->argument_count;

	if (reading->has_entry && thread->calls[thread->depth - 1].mark & IS_OPEN && index < XP_ARRAY_SIZE(names))
		entry->arguments[entry->argument_count++] =
		    (struct xp_perfetto_argument){ .name = { index + 1, names[index] }, .number = number };
	return 0;
}

/* Ends the innermost call. */
static int end_call(struct reading *reading, const struct xp_walked_thread *thread, uint64_t tsc, bool has_exit)
{
	struct xp_perfetto_event event = { .type = XP_PERFETTO_END, .time_ns = time_of(reading, tsc) };

	if (!(thread->calls[thread->depth - 1].mark & IS_OPEN))
		return 0;
	if (!has_exit) {
		event.arguments[0].name = (struct xp_perfetto_name){ EXIT_ID, "exit" };
		event.arguments[0].text = "not recorded";
		event.argument_count = 1;
	}
	return xp_perfetto_event(reading->perfetto, thread->number, &event);
}

static int leave(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct reading *reading = arg;
	int err = 0;

	if (record->tsc >= reading->visitor.from_tsc)
		err = show_calls(reading, thread) ?: write_entry(reading);
	return err ?: end_call(reading, thread, record->tsc, true);
}

/* Calls that are open at the end of the log stay open if the process does not end there. */
static int abandon(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct reading *reading = arg;
	const struct xp_log_visitor *visitor = &reading->visitor;
	uint64_t tsc = record ? record->tsc : visitor->last_tsc;
	int err = 0;

	if (tsc >= visitor->from_tsc)
		err = show_calls(reading, thread) ?: write_entry(reading);
	if (err || !(record || reading->ends || tsc >= visitor->to_tsc)) {
		if (!err && visitor->goes_on_tsc && thread->calls[thread->depth - 1].mark & IS_OPEN)
			err = xp_u64_map_add(&reading->going, key_of(thread), 0) ? 0 : -ENOMEM;
		return err;
	}
	return end_call(reading, thread, tsc, false);
}

/* ---- events ---- */

/* Formats data as text, or in hexadecimal if it is not text. */
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

/* Returns whether this event contains the name of a thread. */
static bool is_name(const struct reading *reading, const struct xp_walked_thread *thread,
		    const struct xp_fdr_record *record)
{
	const char *name = thread->has_records || record->kind != XP_FDR_CUSTOM_EVENT ? NULL : name_of(reading, thread);

	return name && strlen(name) == record->event.bytes &&
	       memcmp(name, record->event.data, record->event.bytes) == 0;
}

static int write_event(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	bool is_typed = record->kind == XP_FDR_TYPED_EVENT;
	struct reading *reading = arg;
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

	if (record->tsc < reading->visitor.from_tsc || record->tsc >= reading->visitor.to_tsc ||
	    is_name(reading, thread, record))
		return 0;
	snprintf(name, sizeof(name), is_typed ? "typed event %u" : "custom event", record->event.type);
	show_data(data, sizeof(data), record->event.data, XP_MIN(record->event.bytes, (uint32_t)EVENT_BYTES_MAX));
	(*reading->written)++;
	return xp_perfetto_event(reading->perfetto, thread->number, &event);
}

/* ---- logs ---- */

static uint64_t program_key(const struct xp_recorded_process *process)
{
	return xp_hash_mix(process->pid, xp_hash_text(process->directory));
}

static int find_last(struct reading *reading)
{
	const struct xp_recorded *recorded = reading->source->recorded;

	for (size_t i = 0; i < recorded->process_count; i++) {
		uint32_t *last = xp_u64_map_add(&reading->last, program_key(&recorded->processes[i]), (uint32_t)i);

		if (!last)
			return -ENOMEM;
		if (recorded->processes[i].image > recorded->processes[*last].image)
			*last = (uint32_t)i;
	}
	return 0;
}

static int begin(void *arg, struct xp_file_view *view, struct xp_violation *violation)
{
	struct reading *reading = arg;
	const struct xp_recorded_process *process = process_of(reading);
	const uint32_t *last = xp_u64_map_find(&reading->last, program_key(process));

	(void)view;
	(void)violation;
	reading->ends = reading->source->recorded->processes[*last].image > process->image;
	return 0;
}

static void end(void *arg)
{
	xp_perfetto_end_sequences(((struct reading *)arg)->perfetto);
}

/* The timeline contains names before calls, so all functions are named first. */
static int find_functions(struct reading *reading, bool *broken)
{
	const struct xp_recorded *recorded = reading->source->recorded;
	int err = xp_log_functions_init(&reading->functions, reading->source, NULL, broken);

	for (size_t i = 0; !err && i < recorded->process_count; i++) {
		const char *path = recorded->processes[i].log;
		struct xp_file_view view;

		/* An unreadable log is reported when its calls are read. */
		if (!path || xp_file_view_open(&view, AT_FDCWD, path))
			continue;
		err = xp_log_find_functions(&reading->functions, i, &view);
		xp_file_view_close(&view);
	}
	return err ?: xp_log_functions_name(&reading->functions);
}

int xp_timeline_write_calls(struct xp_perfetto *perfetto, const struct xp_model_source *source, uint64_t *written,
			    bool *broken)
{
	const struct xp_facts_summary *facts = xp_facts_summary(source->facts);
	struct reading reading = {
		.perfetto = perfetto,
		.source = source,
		.written = written,
		.start_ns = xp_scale(facts->start_tsc, XP_NS_PER_S, facts->tsc_hz),
		.visitor = {
			.begin = begin,
			.record = end_entry,
			.add_thread = add_thread,
			.enter = enter,
			.argument = add_argument,
			.leave = leave,
			.abandon = abandon,
			.event = write_event,
			.end = end,
			.arg = &reading,
			.functions = &reading.functions,
		},
	};
	int err = find_functions(&reading, broken);

	*written = 0;
	err = err ?: find_last(&reading) ?: xp_log_walk_parts(&reading.visitor, source, broken);
	xp_log_functions_free(&reading.functions);
	xp_u64_map_free(&reading.going);
	xp_u64_map_free(&reading.last);
	return err;
}
