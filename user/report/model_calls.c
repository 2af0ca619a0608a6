// SPDX-License-Identifier: BSD-2-Clause
#include "report/model_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file_view.h"
#include "base/progress_line.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "format/fdr_reader.h"
#include "report/code_places.h"
#include "report/model_names.h"

#define LEFT_MAX 4096 /* most calls that one exit can find without exits */

struct open_call {
	uint32_t stack;
	uint32_t function;
	uint64_t tsc;
	uint64_t below; /* cycles of the calls in it */
	bool is_counted;
};

struct thread {
	uint32_t thread; /* of the model */
	bool is_selected;
	struct open_call *calls;
	size_t depth;
	size_t room;
};

/* A log while it is read. */
struct reading {
	struct xp_model *model;
	const struct xp_model_source *source;
	const struct xp_code_places *places;
	const char *instr_map;
	uint64_t start_tsc; /* of the recording: times are since then */
	size_t process;	    /* of the recording */
	uint64_t cycle_hz;  /* of the first log: that of all times in the model until the end */
	uint64_t from_tsc, to_tsc;
	struct xp_report_functions functions;
	uint32_t *locations; /* of each function id; XP_MODEL_NONE: not yet */
	size_t location_count;
	struct xp_u64_map thread_map; /* by PID and TID */
	struct thread *threads;
	size_t thread_count, thread_room;
	size_t open; /* capacity of all threads */
};

/* ---- functions ---- */

static int find_object(struct reading *reading, const struct xp_report_function *function, uint32_t *object)
{
	struct xp_model *model = reading->model;
	struct xp_model_object new = { .kind = XP_CODE_USER, .file = XP_MODEL_NONE };

	new.name = xp_model_text(model, function && function->object ? function->object : "");
	new.path = new.name;
	if (function && function->has_place) {
		new.file = function->file;
		new.path = xp_model_text(model, xp_symbolizer_real_path(model->symbolizer, function->file));
		new.build_id_bytes = xp_symbolizer_build_id(model->symbolizer, function->file, new.build_id);
	}
	return new.name &&new.path ? xp_model_object(model, &new, object) : -ENOMEM;
}

/* A function without a name is fn_<id>, which name_function() makes of the location's `jit`. */
static int find_location(struct reading *reading, uint32_t id, uint32_t *location)
{
	const struct xp_report_function *function = id < reading->functions.count ? &reading->functions.all[id] : NULL;
	struct xp_model *model = reading->model;
	uint32_t object;
	int err = find_object(reading, function, &object);

	if (err)
		return err;
	if (!function || !function->has_place)
		return xp_model_location(model, object, 0, id, location);
	return xp_model_location(model, object, xp_symbolizer_place(model->symbolizer, function->place)->vaddr,
				 XP_MODEL_NONE, location);
}

static int location_of(struct reading *reading, uint32_t id, uint32_t *location)
{
	int err;

	if (id >= reading->location_count)
		return find_location(reading, id, location);
	if (reading->locations[id] == XP_MODEL_NONE) {
		err = find_location(reading, id, &reading->locations[id]);
		if (err)
			return err;
	}
	*location = reading->locations[id];
	return 0;
}

static int name_function(void *arg, struct xp_model *model, const struct xp_model_location *location,
			 struct xp_source_frame *frame)
{
	char name[32];

	(void)arg;
	snprintf(name, sizeof(name), "fn_%" PRIu32, location->jit);
	frame->function = xp_model_text(model, name);
	return frame->function ? 0 : -ENOMEM;
}

/* ---- threads ---- */

static int add_thread(struct reading *reading, uint64_t pid, uint64_t tid, struct thread *thread)
{
	const struct xp_recorded_process *from = &reading->source->recorded->processes[reading->process];
	const struct xp_facts *facts = reading->source->facts;
	const char *comm = xp_facts_comm(facts, from->pid, from->image);
	const char *thread_comm = xp_facts_thread(facts, from->pid, from->image, tid);
	struct xp_model *model = reading->model;
	struct xp_model_process process = {
		.pid = pid,
		.image = comm ? (uint32_t)XP_MIN(from->image, (uint64_t)UINT32_MAX) : (uint32_t)reading->process + 1,
		.name = xp_model_text(model, comm ? comm : from->name),
	};
	struct xp_model_thread new = { .tid = tid, .name = xp_model_text(model, thread_comm ? thread_comm : "") };
	int err;

	if (!thread_comm)
		new.name = process.name;
	if (!process.name || !new.name)
		return -ENOMEM;
	err = xp_model_cgroup(model, xp_facts_cgroup(facts, from->pid, from->image), &process);
	if (err)
		return err;
	thread->is_selected = xp_select_thread(reading->source->select, pid, tid, process.name, new.name);
	err = thread->is_selected ? xp_model_process(model, &process, &new.process) : 0;
	return err || !thread->is_selected ? err : xp_model_thread(model, &new, &thread->thread);
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

static int count_call(struct reading *reading, const struct thread *thread, const struct open_call *call,
		      uint64_t cycles)
{
	const struct xp_model_sample sample = {
		.stack = call->stack,
		.thread = thread->thread,
		.cpu = XP_MODEL_CPU_UNKNOWN,
		.values = { call->is_counted, cycles },
	};

	return call->is_counted || cycles ? xp_model_sample(reading->model, &sample) : 0;
}

static int keep_duration(struct reading *reading, const struct open_call *call, uint64_t cycles)
{
	struct xp_model *model = reading->model;

	if (!model->keep_durations || !call->is_counted)
		return 0;
	return xp_model_call(model, model->stacks[call->stack].location, cycles);
}

/* The innermost call has no exit in the log: its time belongs to nobody, that of its own calls is known. */
static int abandon(struct reading *reading, struct thread *thread)
{
	const struct open_call *call = &thread->calls[--thread->depth];

	if (thread->depth)
		thread->calls[thread->depth - 1].below += call->below;
	return count_call(reading, thread, call, 0);
}

static int enter(struct reading *reading, struct thread *thread, uint32_t id, uint64_t tsc, bool is_counted)
{
	struct open_call call = { .function = id, .tsc = tsc, .is_counted = is_counted };
	uint32_t callers = thread->depth ? thread->calls[thread->depth - 1].stack : 0, location;
	size_t room = thread->room;
	int err = location_of(reading, id, &location);

	if (!err)
		err = xp_model_stack(reading->model, callers, location, &call.stack);
	if (!err && thread->depth == thread->room && reading->open >= XP_MODEL_CALLS_OPEN_MAX)
		err = -E2BIG;
	if (err)
		return err;
	if (XP_ARRAY_RESERVE(thread->calls, thread->room, thread->depth + 1))
		return -ENOMEM;
	reading->open += thread->room - room;
	thread->calls[thread->depth++] = call;
	return 0;
}

/* Calls above the one that ends have no exit. An exit without an entry belongs to a call that began before the log. */
static int leave(struct reading *reading, struct thread *thread, uint32_t id, uint64_t tsc)
{
	size_t depth = thread->depth, lowest = depth - XP_MIN(depth, (size_t)LEFT_MAX);
	struct open_call *call;
	uint64_t cycles;
	int err = 0;

	while (depth > lowest && thread->calls[depth - 1].function != id)
		depth--;
	if (depth == lowest)
		return 0;
	while (!err && thread->depth > depth)
		err = abandon(reading, thread);
	if (err)
		return err;
	call = &thread->calls[--thread->depth];
	cycles = tsc - XP_MIN(tsc, call->tsc);
	if (thread->depth)
		call[-1].below += XP_MAX(cycles, call->below);
	err = keep_duration(reading, call, cycles);
	return err ? err : count_call(reading, thread, call, cycles - XP_MIN(cycles, call->below));
}

static int take(struct reading *reading, const struct xp_fdr_record *record)
{
	bool entry = record->kind == XP_FDR_ENTER || record->kind == XP_FDR_ENTER_ARGS;
	uint64_t tsc = XP_MIN(XP_MAX(record->tsc, reading->from_tsc), reading->to_tsc);
	struct thread *thread;
	int err = thread_of(reading, record, &thread);

	if (err || !thread->is_selected)
		return err;
	if (entry)
		return enter(reading, thread, record->function.fn_id, tsc,
			     record->tsc >= reading->from_tsc && record->tsc < reading->to_tsc);
	return leave(reading, thread, record->function.fn_id, tsc);
}

/* ---- logs ---- */

static int read_records(struct reading *reading, struct xp_fdr_reader *reader, uint64_t bytes,
			struct xp_violation *violation)
{
	struct xp_progress_line line;
	struct xp_fdr_record record;
	int more, err = 0;

	xp_progress_line_begin(&line, "reading calls", XP_PROGRESS_BYTES, bytes);
	while (!err && (more = xp_fdr_reader_next(reader, &record, violation)) > 0) {
		xp_progress_line_step(&line, record.offset);
		err = record.is_function ? take(reading, &record) : 0;
		if (err == -E2BIG) {
			reading->model->dropped++;
			err = 0;
		}
	}
	xp_progress_line_end(&line);
	for (size_t i = 0; !err && i < reading->thread_count; i++)
		while (!err && reading->threads[i].depth)
			err = abandon(reading, &reading->threads[i]);
	return err ? err : more;
}

/* The highest function id of the log. */
static uint32_t count_functions(const struct xp_file_view *view)
{
	struct xp_violation violation;
	struct xp_fdr_reader reader;
	struct xp_fdr_record record;
	uint32_t count = 0;

	if (xp_fdr_reader_init(&reader, view->bytes, view->size, &violation))
		return 0;
	while (xp_fdr_reader_next(&reader, &record, &violation) > 0)
		if (record.is_function)
			count = XP_MAX(count, record.function.fn_id);
	return XP_MIN(count, XP_REPORT_FUNCTIONS_MAX);
}

static int find_functions(struct reading *reading, const struct xp_file_view *view)
{
	const struct xp_recorded_process *process = &reading->source->recorded->processes[reading->process];
	uint32_t count = count_functions(view);
	int err = xp_report_functions_find(&reading->functions, count, process, &reading->places->of[reading->process],
					   reading->instr_map, reading->model->symbolizer);

	if (err)
		return err;
	reading->location_count = (size_t)count + 1;
	reading->locations = malloc(reading->location_count * sizeof(*reading->locations));
	if (!reading->locations)
		return -ENOMEM;
	memset(reading->locations, 0xff, reading->location_count * sizeof(*reading->locations));
	return 0;
}

static uint64_t scale(uint64_t number, uint64_t to, uint64_t from)
{
	unsigned __int128 scaled = from ? (unsigned __int128)number * to / from : number;

	return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}

static uint64_t first_tsc(const struct xp_file_view *view)
{
	struct xp_violation violation;
	struct xp_fdr_reader reader;
	struct xp_fdr_record record;
	uint64_t first = UINT64_MAX;

	if (xp_fdr_reader_init(&reader, view->bytes, view->size, &violation))
		return first;
	while (xp_fdr_reader_next(&reader, &record, &violation) > 0)
		if (record.is_function)
			first = XP_MIN(first, record.tsc);
	return first;
}

uint64_t xp_model_calls_start(const struct xp_model_source *source)
{
	uint64_t start_tsc = xp_facts_summary(source->facts)->start_tsc, first = UINT64_MAX;
	struct xp_file_view view;

	if (start_tsc || !(source->select->from_ns || source->select->to_ns))
		return start_tsc;
	for (size_t i = 0; i < source->recorded->process_count; i++) {
		const char *path = source->recorded->processes[i].log;

		/* Reading it shows what is wrong with it. */
		if (!path || xp_file_view_open(&view, AT_FDCWD, path))
			continue;
		first = XP_MIN(first, first_tsc(&view));
		xp_file_view_close(&view);
	}
	return first == UINT64_MAX ? 0 : first;
}

static void set_window(struct reading *reading)
{
	const struct xp_select *select = reading->source->select;
	uint64_t start_tsc = reading->start_tsc;

	reading->from_tsc = select->from_ns ? start_tsc + scale(select->from_ns, reading->cycle_hz, XP_NS_PER_S) : 0;
	reading->to_tsc = select->to_ns ? start_tsc + scale(select->to_ns, reading->cycle_hz, XP_NS_PER_S) : UINT64_MAX;
}

static void reading_free(struct reading *reading)
{
	for (size_t i = 0; i < reading->thread_count; i++)
		free(reading->threads[i].calls);
	free(reading->threads);
	free(reading->locations);
	xp_u64_map_free(&reading->thread_map);
	xp_report_functions_free(&reading->functions);
}

/* *hz: that of the first log. All logs of a recording have the same. */
static int read_log(struct reading *reading, const struct xp_file_view *view, uint64_t *hz,
		    struct xp_violation *violation)
{
	struct xp_fdr_reader reader;
	int err = xp_fdr_reader_init(&reader, view->bytes, view->size, violation);

	if (err)
		return err;
	if (!*hz)
		*hz = reader.header.cycle_hz;
	if (reader.header.cycle_hz != *hz)
		return xp_violate(violation, 0, "its clock runs at %" PRIu64 " Hz, that of another log at %" PRIu64,
				  reader.header.cycle_hz, *hz);
	reading->cycle_hz = *hz;
	set_window(reading);
	err = find_functions(reading, view);
	return err ? err : read_records(reading, &reader, view->size, violation);
}

static int read_logs(struct xp_model *model, const struct xp_model_source *source, const struct xp_code_places *places,
		     bool *broken)
{
	const char *instr_map = source->instr_map;
	const uint64_t start_tsc = xp_model_calls_start(source);
	uint64_t hz = 0;
	int err = 0;

	if (instr_map && !xp_report_instr_map_is_good(instr_map, model->symbolizer)) {
		xp_error("%s: " XP_REPORT_NO_INSTR_MAP, instr_map);
		instr_map = NULL;
		*broken = true;
	}
	for (size_t i = 0; !err && i < source->recorded->process_count; i++) {
		struct reading reading = {
			.model = model,
			.source = source,
			.places = places,
			.instr_map = instr_map,
			.start_tsc = start_tsc,
			.process = i,
		};
		const char *path = source->recorded->processes[i].log;
		struct xp_violation violation;
		struct xp_file_view view;

		if (!path)
			continue;
		err = xp_file_view_open(&view, AT_FDCWD, path);
		if (err) {
			xp_error("%s: cannot read it: %s", path, strerror(-err));
		} else {
			err = read_log(&reading, &view, &hz, &violation);
			reading_free(&reading);
			xp_file_view_close(&view);
			if (err == -EBADMSG)
				xp_error("%s: 0x%" PRIx64 ": %s", path, violation.offset, violation.text);
		}
		*broken |= err && err != -ENOMEM;
		err = err == -ENOMEM ? err : 0;
	}
	for (size_t i = 0; i < model->sample_count; i++)
		model->samples[i].values[1] = scale(model->samples[i].values[1], XP_NS_PER_S, hz);
	model->cycle_hz = hz;
	return err;
}

int xp_model_read_calls(struct xp_model *model, const struct xp_model_source *source, bool *broken)
{
	const struct xp_model_jit_names names = { name_function, NULL };
	struct xp_code_places places;
	int err;

	xp_model_describe(model, source);
	model->has_threads = true;
	err = xp_code_places_read(&places, source->recorded, model->symbolizer, broken);
	if (!err)
		err = read_logs(model, source, &places, broken);
	xp_code_places_free(&places);
	if (!err)
		err = xp_model_name(model, &names);
	return err ? err : xp_select_stacks(source->select, model);
}
