// SPDX-License-Identifier: BSD-2-Clause
#include "model/read_samples.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"
#include "model/location_names.h"
#include "model/log_walk.h"

struct reading {
	struct xp_model *model;
	const struct xp_model_source *source;
	struct xp_log_visitor visitor;
	uint64_t cycle_hz; /* frequency of the first log, used for all times in the model until the end */
	struct xp_log_functions functions;
	uint32_t *locations; /* locations of the functions; XP_MODEL_NONE: not known yet */
	size_t location_count, location_room;
};

/* ---- functions ---- */

static int find_object(struct reading *reading, const struct xp_log_function *function, uint32_t *object)
{
	struct xp_model *model = reading->model;
	struct xp_model_object new = { .kind = XP_CODE_USER, .file = XP_MODEL_NONE };

	new.name = xp_model_text(model, function->object ? function->object : "");
	new.path = new.name;
	if (function->place != XP_MODEL_NONE) {
		new.file = function->file;
		new.path = xp_model_text(model, xp_symbolizer_real_path(model->symbolizer, function->file));
		new.build_id_bytes = xp_symbolizer_build_id(model->symbolizer, function->file, new.build_id);
	}
	return new.name &&new.path ? xp_model_object(model, &new, object) : -ENOMEM;
}

/* Finds the location of a function. Without a name, it is fn_<id>, which name_function() makes from `jit`. */
static int find_location(struct reading *reading, const struct xp_log_function *function, uint32_t *location)
{
	struct xp_model *model = reading->model;
	uint32_t object;
	int err = find_object(reading, function, &object);

	if (err)
		return err;
	if (function->place == XP_MODEL_NONE)
		return xp_model_location(model, object, 0, function->id, location);
	return xp_model_location(model, object, xp_symbolizer_place(model->symbolizer, function->place)->vaddr,
				 XP_MODEL_NONE, location);
}

static int location_of(struct reading *reading, uint32_t function, uint32_t *location)
{
	int err = 0;

	if (XP_ARRAY_RESERVE(reading->locations, reading->location_room, (size_t)function + 1))
		return -ENOMEM;
	while (reading->location_count <= function)
		reading->locations[reading->location_count++] = XP_MODEL_NONE;
	if (reading->locations[function] == XP_MODEL_NONE)
		err = find_location(reading, &reading->functions.all[function], &reading->locations[function]);
	*location = reading->locations[function];
	return err;
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

static int add_thread(void *arg, struct xp_walked_thread *thread)
{
	struct reading *reading = arg;
	size_t index = reading->visitor.process;
	const struct xp_recorded_process *from = &reading->source->recorded->processes[index];
	const struct xp_facts *facts = reading->source->facts;
	const char *comm = xp_facts_comm(facts, from->pid, from->image);
	const char *thread_comm = xp_facts_thread(facts, from->pid, from->image, thread->tid);
	struct xp_model *model = reading->model;
	struct xp_model_process process = {
		.pid = thread->pid,
		.image = comm ? (uint32_t)XP_MIN(from->image, (uint64_t)UINT32_MAX) : (uint32_t)index + 1,
		.name = xp_model_text(model, comm ? comm : from->name),
	};
	struct xp_model_thread own = {
		.tid = thread->tid,
		.name = thread_comm ? xp_model_text(model, thread_comm) : process.name,
	};
	int err;

	if (!process.name || !own.name)
		return -ENOMEM;
	err = xp_model_cgroup(model, xp_facts_cgroup(facts, from->pid, from->image), &process);
	if (err)
		return err;
	thread->is_left_out =
	    !xp_select_thread(reading->source->select, thread->pid, thread->tid, process.name, own.name);
	err = thread->is_left_out ? 0 : xp_model_process(model, &process, &own.process);
	return err || thread->is_left_out ? err : xp_model_thread(model, &own, &thread->number);
}

/* ---- calls ---- */

/* For each open call, `mark` is its stack, and `sum` the cycles of its callees. */

static uint64_t in_window(const struct reading *reading, uint64_t tsc)
{
	uint64_t from_tsc = XP_MAX(reading->visitor.from_tsc, reading->visitor.part_tsc);

	return XP_MIN(XP_MAX(tsc, from_tsc), reading->visitor.to_tsc);
}

static bool is_counted(const struct reading *reading, const struct xp_walked_call *call)
{
	return xp_log_walk_selects(&reading->visitor, call->tsc);
}

/*
 * Counts a call. end: when the call, or one of its callers, ended. With slots, assumes that the call's own time is
 * spread evenly over the call.
 */
static int count_call(struct reading *reading, const struct xp_walked_thread *thread, uint64_t cycles, uint64_t end)
{
	const struct xp_walked_call *call = &thread->calls[thread->depth - 1];
	const bool goes_on = reading->visitor.goes_on_tsc && end == reading->visitor.goes_on_tsc;
	const struct xp_model_sample sample = {
		.stack = call->mark,
		.thread = thread->number,
		.cpu = XP_MODEL_CPU_UNKNOWN,
		.values = { !goes_on && is_counted(reading, call), cycles },
	};

	if (!sample.values[0] && !cycles)
		return 0;
	if (!reading->model->slot_ns)
		return xp_model_sample(reading->model, &sample);
	return xp_model_sample_over(reading->model, &sample,
				    xp_log_walk_ns(&reading->visitor, 0, in_window(reading, call->tsc)),
				    xp_log_walk_ns(&reading->visitor, 0, in_window(reading, end)));
}

static uint64_t cycles_until(const struct reading *reading, const struct xp_walked_call *call, uint64_t end)
{
	uint64_t begin = in_window(reading, call->tsc);

	end = in_window(reading, end);
	return end - XP_MIN(begin, end);
}

/*
 * Handles a call without an exit: its own time is unknown, that of its callees is known. If it continues in the next
 * part, its time up to then counts.
 */
static int abandon(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct reading *reading = arg;
	struct xp_walked_call *call = &thread->calls[thread->depth - 1];
	uint64_t cycles;

	if (!record && reading->visitor.goes_on_tsc) {
		cycles = cycles_until(reading, call, reading->visitor.goes_on_tsc);
		if (thread->depth > 1)
			call[-1].sum += XP_MAX(cycles, call->sum);
		return count_call(reading, thread, cycles - XP_MIN(cycles, call->sum), reading->visitor.goes_on_tsc);
	}
	if (thread->depth > 1)
		thread->calls[thread->depth - 2].sum += thread->calls[thread->depth - 1].sum;
	return count_call(arg, thread, 0, record ? record->tsc : thread->calls[thread->depth - 1].tsc);
}

static int enter(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct reading *reading = arg;
	uint32_t callers = thread->depth > 1 ? thread->calls[thread->depth - 2].mark : 0, location;
	int err = location_of(reading, thread->calls[thread->depth - 1].function, &location);

	(void)record;
	return err ? err : xp_model_stack(reading->model, callers, location, &thread->calls[thread->depth - 1].mark);
}

static int leave(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct reading *reading = arg;
	struct xp_model *model = reading->model;
	struct xp_walked_call *call = &thread->calls[thread->depth - 1];
	uint64_t cycles = cycles_until(reading, call, record->tsc), all;
	int err = 0;

	if (thread->depth > 1)
		call[-1].sum += XP_MAX(cycles, call->sum);
	/* The whole duration of a call that began in an earlier part. */
	all = call->tsc < reading->visitor.part_tsc ? record->tsc - XP_MIN(record->tsc, call->tsc) : cycles;
	if (model->keep_durations && is_counted(reading, call))
		err = xp_model_call(model, model->stacks[call->mark].location, all);
	return err ? err : count_call(reading, thread, cycles - XP_MIN(cycles, call->sum), record->tsc);
}

/* ---- logs ---- */

static int begin(void *arg, struct xp_file_view *view, struct xp_violation *violation)
{
	struct reading *reading = arg;
	uint64_t hz = reading->visitor.hz;

	(void)view;
	if (!reading->cycle_hz)
		reading->cycle_hz = hz;
	if (!xp_log_same_clock(hz, reading->cycle_hz))
		return xp_violate(violation, 0, "its clock runs at %" PRIu64 " Hz, that of another log at %" PRIu64, hz,
				  reading->cycle_hz);
	return 0;
}

/*
 * Converts cycles to ns. Adds the rounding error to the next sample of the stack, so the time of a stack does not
 * depend on its number of samples.
 */
static int scale(struct xp_model *model, uint64_t hz)
{
	uint64_t *owed = hz ? calloc(model->stack_count, sizeof(*owed)) : NULL;

	if (hz && !owed)
		return -ENOMEM;
	for (size_t i = 0; hz && i < model->sample_count; i++) {
		struct xp_model_sample *sample = &model->samples[i];
		unsigned __int128 exact = (unsigned __int128)sample->values[1] * XP_NS_PER_S + owed[sample->stack];

		sample->values[1] = (uint64_t)XP_MIN(exact / hz, (unsigned __int128)INT64_MAX);
		owed[sample->stack] = (uint64_t)(exact % hz);
	}
	free(owed);
	return 0;
}

static int read_logs(struct xp_model *model, const struct xp_model_source *source, bool *broken)
{
	struct reading reading = {
		.model = model,
		.source = source,
		.visitor = {
			.begin = begin,
			.add_thread = add_thread,
			.enter = enter,
			.leave = leave,
			.abandon = abandon,
			.arg = &reading,
			.functions = &reading.functions,
		},
	};
	int err = xp_log_functions_init(&reading.functions, source, model->symbolizer, broken);

	err = err ?: xp_log_walk(&reading.visitor, source, broken);
	err = err ?: scale(model, reading.cycle_hz);
	model->cycle_hz = reading.cycle_hz;
	model->dropped += reading.visitor.refused;
	free(reading.locations);
	xp_log_functions_free(&reading.functions);
	return err;
}

int xp_model_read_calls(struct xp_model *model, const struct xp_model_source *source, bool *broken)
{
	const struct xp_model_jit_names names = { name_function, NULL };
	int err;

	xp_model_describe(model, source);
	model->has_threads = true;
	err = read_logs(model, source, broken);
	if (!err)
		err = xp_model_name(model, &names);
	return err ? err : xp_select_stacks(source->select, model);
}
