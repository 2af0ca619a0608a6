// SPDX-License-Identifier: BSD-2-Clause
/*
 * Perfetto's traces (format/perfetto.h): samples of perf.data as stack_sample with all names, then the calls and events
 * of the logs, thread by thread (timeline.h).
 */
#include "export/export.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/progress_line.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "export/perfetto_requests.h"
#include "format/perfetto.h"
#include "model/timeline.h"

struct writing {
	FILE *out;
	struct xp_perfetto *perfetto;
	struct xp_model *model;
	uint64_t start_ns;	   /* time of the start on the trace's clock */
	uint32_t *order;	   /* samples, sorted by time */
	struct xp_u64_map sources; /* by the address of the text: its id */
	bool *has_stack;	   /* by stack: it has been written */
	uint64_t *frames;	   /* frames of a stack */
	size_t frame_room;
};

/* ---- code ---- */

static int put_functions(struct writing *writing)
{
	const struct xp_model *model = writing->model;
	int err = 0;

	for (size_t i = 0; !err && i < model->function_count; i++) {
		const struct xp_model_function *function = &model->functions[i];

		err = xp_perfetto_text(writing->perfetto, XP_PERFETTO_FUNCTION, i + 1, function->shown);
		if (err || !function->file || xp_u64_map_find(&writing->sources, (uintptr_t)function->file))
			continue;
		if (!xp_u64_map_add(&writing->sources, (uintptr_t)function->file, (uint32_t)writing->sources.count + 1))
			return -ENOMEM;
		err = xp_perfetto_text(writing->perfetto, XP_PERFETTO_SOURCE, writing->sources.count, function->file);
	}
	return err;
}

static int put_mappings(struct writing *writing)
{
	const struct xp_model *model = writing->model;
	int err = 0;

	for (size_t i = 0; !err && i < model->object_count; i++) {
		const struct xp_model_object *object = &model->objects[i];

		err = xp_perfetto_text(writing->perfetto, XP_PERFETTO_PATH, i + 1, object->path);
		if (!err)
			err = xp_perfetto_mapping(writing->perfetto, i + 1, i + 1, object->build_id,
						  object->build_id_bytes);
	}
	return err;
}

static int put_location(struct writing *writing, const struct xp_model_location *location)
{
	static const enum xp_perfetto_kind kinds[XP_CODE_KINDS] = {
		[XP_CODE_USER] = XP_PERFETTO_NATIVE,	  [XP_CODE_KERNEL] = XP_PERFETTO_KERNEL,
		[XP_CODE_JIT] = XP_PERFETTO_JIT,	  [XP_CODE_UNKNOWN] = XP_PERFETTO_UNKNOWN,
		[XP_CODE_RECORDER] = XP_PERFETTO_UNKNOWN, [XP_CODE_WAKER] = XP_PERFETTO_UNKNOWN,
	};
	const struct xp_model *model = writing->model;
	int err = 0;

	for (uint32_t i = 0; !err && i < location->frame_count; i++) {
		const struct xp_model_frame *from = &model->frames[location->first_frame + i];
		const struct xp_model_function *function = &model->functions[from->function];
		const uint32_t *source =
		    function->file ? xp_u64_map_find(&writing->sources, (uintptr_t)function->file) : NULL;
		const struct xp_perfetto_frame frame = {
			.id = (uint64_t)location->first_frame + i + 1,
			.function = (uint64_t)from->function + 1,
			.mapping = (uint64_t)location->object + 1,
			.source = source ? *source : 0,
			.address = location->address,
			.line = from->line,
			.kind = kinds[function->kind],
			.is_inlined = i + 1 < location->frame_count,
		};

		err = xp_perfetto_frame(writing->perfetto, &frame);
	}
	return err;
}

static int put_code(struct writing *writing)
{
	int err = put_functions(writing) ?: put_mappings(writing);

	for (size_t i = 0; !err && i < writing->model->location_count; i++)
		err = put_location(writing, &writing->model->locations[i]);
	return err;
}

/* ---- threads ---- */

/* Returns a PID. In the model, kernel threads have no process; in Linux, each kernel thread is a process. */
static uint32_t pid_of(const struct xp_model *model, uint32_t index)
{
	const struct xp_model_thread *thread = &model->threads[index];
	uint64_t pid = model->processes[thread->process].pid;

	return (uint32_t)(pid ? pid : thread->tid);
}

static int put_threads(struct writing *writing)
{
	const struct xp_model *model = writing->model;
	int err = 0;

	for (uint32_t i = 0; !err && i < model->thread_count; i++) {
		const struct xp_model_thread *thread = &model->threads[i];
		const struct xp_model_process *process = &model->processes[thread->process];
		const struct xp_perfetto_thread to = {
			.pid = pid_of(model, i),
			.tid = (uint32_t)thread->tid,
			.process_name = process->pid ? process->name : thread->name,
			.name = thread->name,
		};

		err = to.pid ? xp_perfetto_thread(writing->perfetto, &to) : 0;
	}
	return err;
}

/* ---- samples ---- */

static int compare_times(const void *a, const void *b, void *arg)
{
	const struct xp_model_sample *samples = ((const struct xp_model *)arg)->samples;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

	return xp_compare(samples[i].time_ns, samples[j].time_ns) ?: xp_compare(i, j);
}

/* Collects frames from the innermost one, then reverses them. */
static int put_stack(struct writing *writing, uint32_t stack)
{
	const struct xp_model *model = writing->model;
	size_t depth = 0;

	writing->has_stack[stack] = true;
	for (uint32_t s = stack; s; s = model->stacks[s].callers) {
		const struct xp_model_location *location = &model->locations[model->stacks[s].location];

		if (XP_ARRAY_RESERVE(writing->frames, writing->frame_room, depth + location->frame_count))
			return -ENOMEM;
		for (uint32_t i = 0; i < location->frame_count; i++)
			writing->frames[depth++] = (uint64_t)location->first_frame + i + 1;
	}
	for (size_t i = 0; i < depth / 2; i++) {
		uint64_t frame = writing->frames[i];

		writing->frames[i] = writing->frames[depth - 1 - i];
		writing->frames[depth - 1 - i] = frame;
	}
	return xp_perfetto_callstack(writing->perfetto, stack, writing->frames, depth);
}

static bool is_in_kernel(const struct xp_model *model, uint32_t stack)
{
	return stack && model->objects[model->locations[model->stacks[stack].location].object].kind == XP_CODE_KERNEL;
}

static int put_sample(struct writing *writing, const struct xp_model_sample *from)
{
	const struct xp_model *model = writing->model;
	const struct xp_perfetto_sample sample = {
		.time_ns = writing->start_ns + from->time_ns,
		.pid = pid_of(model, from->thread),
		.tid = (uint32_t)model->threads[from->thread].tid,
		.cpu = from->cpu == XP_MODEL_CPU_UNKNOWN ? XP_PERFETTO_CPU_UNKNOWN : from->cpu,
		.callstack = from->stack,
		.in_kernel = is_in_kernel(model, from->stack),
		.weight_ns = from->values[1],
	};
	int err = from->stack && !writing->has_stack[from->stack] ? put_stack(writing, from->stack) : 0;

	return err ? err : xp_perfetto_sample(writing->perfetto, &sample);
}

static int put_samples(struct writing *writing)
{
	struct xp_model *model = writing->model;
	struct xp_progress_line line;
	int err = put_code(writing);

	writing->order = calloc(model->sample_count, sizeof(*writing->order));
	writing->has_stack = calloc(model->stack_count, sizeof(*writing->has_stack));
	if (!err && (!writing->order || !writing->has_stack))
		err = -ENOMEM;
	if (err)
		return err;
	for (size_t i = 0; i < model->sample_count; i++)
		writing->order[i] = (uint32_t)i;
	qsort_r(writing->order, model->sample_count, sizeof(*writing->order), compare_times, model);
	xp_progress_line_begin_writing(&line, writing->out, model->sample_count);
	for (size_t i = 0; !err && i < model->sample_count; i++) {
		xp_progress_line_step(&line, i);
		err = put_sample(writing, &model->samples[writing->order[i]]);
	}
	xp_progress_line_end(&line);
	return err;
}

/* ---- the trace ---- */

static const char *text_of(struct xp_model *model, const char *text)
{
	return text ? xp_model_text(model, text) : NULL;
}

/* Profiles are read if there is no perf.data; their samples have no times. */
static int put_all(struct writing *writing, const struct xp_export_options *options)
{
	size_t waits = writing->model->wait_count, hits = writing->model->hit_count;
	bool has_samples = writing->model->has_threads && writing->model->sample_count;
	uint64_t written = 0;
	int err = has_samples || waits || hits ? put_threads(writing) : 0;

	if (!err && has_samples)
		err = put_samples(writing);
	if (!err && waits)
		err = xp_timeline_waits_write(writing->model, writing->perfetto, writing->start_ns,
					      options->source->select->from_ns);
	if (!err && hits)
		err = xp_timeline_hits_write(writing->model, writing->perfetto, writing->start_ns);
	if (!err && options->kind != XP_MODEL_WAITS)
		err = xp_timeline_write_calls(writing->perfetto, options->source, &written, options->broken);
	if (!err && options->why)
		err = xp_perfetto_put_requests(writing->perfetto, options->why, writing->start_ns);
	if (!err && !has_samples && !waits && !hits && !written)
		return -ENODATA;
	return err ? err : xp_perfetto_finish(writing->perfetto);
}

int xp_export_perfetto(FILE *out, struct xp_model *model, const struct xp_export_options *options)
{
	const struct xp_facts_summary *facts = xp_facts_summary(options->source->facts);
	struct writing writing = {
		.out = out,
		.model = model,
		.start_ns = xp_scale(facts->start_tsc, XP_NS_PER_S, facts->tsc_hz),
	};
	const struct xp_perfetto_options head = {
		.start_ns = writing.start_ns,
		.realtime_ns = facts->started_ns,
		.maker = model->comment ? model->comment : "xprof " XPROF_VERSION,
		.release = text_of(model, facts->release),
		.machine = text_of(model, facts->machine),
	};
	int err = xp_perfetto_new(&writing.perfetto, out, &head);

	if (!err)
		err = put_all(&writing, options);
	xp_perfetto_free(writing.perfetto);
	xp_u64_map_free(&writing.sources);
	free(writing.order);
	free(writing.has_stack);
	free(writing.frames);
	return err;
}
