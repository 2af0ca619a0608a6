// SPDX-License-Identifier: BSD-2-Clause
/*
 * pprof's own profiles (format/pprof.h). Each location has its functions and lines, so pprof reads no binaries. Labels
 * have the names of perf_data_converter. Labels are strings: a number 0, such as a CPU number, would be omitted. A
 * profile contains only the code of its own samples.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/progress_line.h"
#include "base/util.h"
#include "format/pprof.h"
#include "model/objects.h"
#include "model/read_waits.h"

struct writing {
	struct xp_pprof *pprof;
	const struct xp_model *model;
	const struct xp_model_sample *samples;
	size_t sample_count;
	enum xp_model_group by;
	uint64_t *locations; /* location IDs of a sample */
	size_t location_room;
	/* ID of each object, function and location in the profile; 0: not in any sample. */
	uint32_t *objects, *functions, *code;
};

/* ---- the code that the samples use ---- */

#define USED UINT32_MAX /* used, but without an ID yet */

static int mark_used(struct writing *writing)
{
	const struct xp_model *model = writing->model;

	writing->objects = calloc(model->object_count + 1, sizeof(*writing->objects));
	writing->functions = calloc(model->function_count + 1, sizeof(*writing->functions));
	writing->code = calloc(model->location_count + 1, sizeof(*writing->code));
	if (!writing->objects || !writing->functions || !writing->code)
		return -ENOMEM;
	for (size_t i = 0; i < writing->sample_count; i++)
		for (uint32_t s = writing->samples[i].stack; s; s = model->stacks[s].callers)
			writing->code[model->stacks[s].location] = USED;
	for (size_t i = 0; i < model->location_count; i++) {
		const struct xp_model_location *location = &model->locations[i];

		for (uint32_t j = 0; writing->code[i] && j < location->frame_count; j++)
			writing->functions[model->frames[location->first_frame + j].function] = USED;
		if (writing->code[i])
			writing->objects[location->object] = USED;
	}
	return 0;
}

/* ---- objects: the program first ---- */

/* Returns whether this is the program of a process: its file name begins with the name of the process. */
static bool is_program(const struct xp_model *model, const struct xp_model_object *object, uint32_t process)
{
	const char *name = model->processes[process].name;

	return object->kind == XP_CODE_USER && *name &&
	       strncmp(xp_object_base_name(object->path), name, strlen(name)) == 0;
}

/* Returns the program with most samples, or the object with most samples if there is no program. */
static uint32_t main_object(const struct writing *writing)
{
	const struct xp_model *model = writing->model;
	uint64_t *weights = calloc(XP_MAX(model->object_count, (size_t)1), sizeof(*weights));
	uint32_t best = 0;

	for (size_t i = 0; weights && i < writing->sample_count; i++) {
		const struct xp_model_sample *sample = &writing->samples[i];
		uint32_t process = model->threads[sample->thread].process;

		for (uint32_t s = sample->stack; s; s = model->stacks[s].callers) {
			uint32_t object = model->locations[model->stacks[s].location].object;

			if (is_program(model, &model->objects[object], process)) {
				weights[object] += sample->values[0];
				break;
			}
		}
	}
	for (uint32_t i = 1; weights && i < model->object_count; i++)
		if (weights[i] > weights[best] || !writing->objects[best])
			best = i;
	free(weights);
	return best;
}

/* Describes the properties that all locations of an object share. */
static void describe_locations(const struct writing *writing, struct xp_pprof_mapping *all)
{
	const struct xp_model *model = writing->model;

	for (size_t i = 0; i < model->object_count; i++)
		all[i].has_functions = all[i].has_filenames = all[i].has_line_numbers = all[i].has_inline_frames = true;
	for (size_t i = 0; i < model->location_count; i++) {
		const struct xp_model_location *location = &model->locations[i];
		struct xp_pprof_mapping *mapping = &all[location->object];

		for (uint32_t j = 0; writing->code[i] && j < location->frame_count; j++) {
			const struct xp_model_frame *frame = &model->frames[location->first_frame + j];

			mapping->has_filenames &= model->functions[frame->function].file != NULL;
			mapping->has_line_numbers &= frame->line != 0;
		}
	}
	for (size_t i = 0; i < model->object_count; i++)
		all[i].has_inline_frames = all[i].has_filenames && all[i].has_line_numbers;
}

static int put_mapping(struct writing *writing, uint32_t index, struct xp_pprof_mapping *mapping)
{
	const struct xp_model_object *object = &writing->model->objects[index];
	char build_id[2 * sizeof(object->build_id) + 1] = "";

	for (size_t i = 0; i < object->build_id_bytes; i++)
		snprintf(build_id + 2 * i, 3, "%02x", object->build_id[i]);
	mapping->filename = object->path;
	mapping->build_id = build_id;
	return xp_pprof_mapping(writing->pprof, mapping);
}

static int put_mappings(struct writing *writing)
{
	const struct xp_model *model = writing->model;
	struct xp_pprof_mapping *all = calloc(XP_MAX(model->object_count, (size_t)1), sizeof(*all));
	uint32_t first = main_object(writing), ids = 0;
	int err = all ? 0 : -ENOMEM;

	if (!err)
		describe_locations(writing, all);
	for (uint32_t i = 0; !err && i < model->object_count; i++) {
		uint32_t object = !i ? first : i <= first ? i - 1 : i;

		if (!writing->objects[object])
			continue;
		writing->objects[object] = ++ids;
		err = put_mapping(writing, object, &all[object]);
	}
	free(all);
	return err;
}

/* ---- code ---- */

static int put_functions(struct writing *writing)
{
	const struct xp_model *model = writing->model;
	uint32_t ids = 0;
	int err = 0;

	for (size_t i = 0; !err && i < model->function_count; i++) {
		const struct xp_pprof_function function = {
			.name = model->functions[i].shown,
			.system_name = model->functions[i].symbol,
			.filename = model->functions[i].file,
		};

		if (!writing->functions[i])
			continue;
		writing->functions[i] = ++ids;
		err = xp_pprof_function(writing->pprof, &function);
	}
	return err;
}

static int put_location(struct writing *writing, const struct xp_model_location *from)
{
	const struct xp_model *model = writing->model;
	struct xp_pprof_line lines[XP_NAME_FRAMES_MAX];
	struct xp_pprof_location location = {
		.mapping = writing->objects[from->object],
		.lines = lines,
		.line_count = from->frame_count,
	};

	/* Addresses in sym/ belong to files that only the recording has. */
	if (model->objects[from->object].path[0] == '/')
		location.address = from->address;
	for (uint32_t i = 0; i < from->frame_count; i++) {
		const struct xp_model_frame *frame = &model->frames[from->first_frame + i];

		lines[i] = (struct xp_pprof_line){ writing->functions[frame->function], frame->line };
	}
	return xp_pprof_location(writing->pprof, &location);
}

static int put_code(struct writing *writing)
{
	int err = mark_used(writing) ?: put_mappings(writing) ?: put_functions(writing);
	uint32_t ids = 0;

	for (size_t i = 0; !err && i < writing->model->location_count; i++) {
		if (!writing->code[i])
			continue;
		writing->code[i] = ++ids;
		err = put_location(writing, &writing->model->locations[i]);
	}
	return err;
}

/* ---- samples ---- */

static void add_label(struct xp_pprof_sample *sample, const char *key, const char *text)
{
	if (*text)
		sample->labels[sample->label_count++] = (struct xp_pprof_label){ key, text };
}

/* Texts of numbers. */
struct numbers {
	char pid[24], tid[24], cpu[24];
};

static void put_number(char to[24], uint64_t number)
{
	snprintf(to, 24, "%" PRIu64, number);
}

static void add_labels(const struct writing *writing, const struct xp_model_sample *from,
		       struct xp_pprof_sample *sample, struct numbers *numbers)
{
	const struct xp_model_thread *thread = &writing->model->threads[from->thread];
	const struct xp_model_process *process = &writing->model->processes[thread->process];
	enum xp_model_group by = writing->by;

	if (by == XP_MODEL_BY_CPU && from->cpu != XP_MODEL_CPU_UNKNOWN) {
		put_number(numbers->cpu, from->cpu);
		add_label(sample, "cpu", numbers->cpu);
	}
	if ((by == XP_MODEL_BY_PROCESS || by == XP_MODEL_BY_THREAD) && process->pid) {
		put_number(numbers->pid, process->pid);
		add_label(sample, "pid", numbers->pid);
	}
	if (by == XP_MODEL_BY_THREAD && thread->tid) {
		put_number(numbers->tid, thread->tid);
		add_label(sample, "tid", numbers->tid);
		add_label(sample, "thread_comm", thread->name);
	}
	if (by == XP_MODEL_BY_PROCESS || by == XP_MODEL_BY_THREAD || by == XP_MODEL_BY_COMM)
		add_label(sample, "comm", process->name);
	if (by == XP_MODEL_BY_CGROUP && process->cgroup)
		add_label(sample, "cgroup", process->cgroup);
	if (writing->model->kind == XP_MODEL_WAITS)
		add_label(sample, "state", xp_waits_state(from->state));
}

static int put_sample(struct writing *writing, const struct xp_model_sample *from)
{
	const struct xp_model *model = writing->model;
	struct xp_pprof_sample sample = { .values = { from->values[0], from->values[1] } };
	struct numbers numbers;

	for (uint32_t s = from->stack; s; s = model->stacks[s].callers) {
		if (XP_ARRAY_ADD(writing->locations, sample.location_count, writing->location_room,
				 writing->code[model->stacks[s].location]))
			return -ENOMEM;
	}
	sample.locations = writing->locations;
	add_labels(writing, from, &sample, &numbers);
	return xp_pprof_sample(writing->pprof, &sample);
}

static struct xp_pprof_options describe(const struct xp_model *model)
{
	static const struct xp_pprof_value_type types[][2] = {
		[XP_MODEL_SAMPLES] = { { "samples", "count" }, { "cpu", "nanoseconds" } },
		[XP_MODEL_CALLS] = { { "calls", "count" }, { "wall", "nanoseconds" } },
		[XP_MODEL_WAITS] = { { "waits", "count" }, { "off_cpu", "nanoseconds" } },
	};
	struct xp_pprof_options options = {
		.time_ns = model->start_ns,
		.duration_ns = model->length_ns,
		.comment = model->comment,
	};

	memcpy(options.types, types[model->kind], sizeof(options.types));
	if (model->kind == XP_MODEL_SAMPLES) {
		options.period_type = types[XP_MODEL_SAMPLES][1];
		options.period = model->period_ns;
	}
	return options;
}

int xp_export_pprof_samples(FILE *out, const struct xp_model *model, enum xp_model_group by,
			    const struct xp_model_sample *samples, size_t count)
{
	const struct xp_pprof_options head = describe(model);
	struct writing writing = { .model = model, .samples = samples, .sample_count = count, .by = by };
	struct xp_progress_line line;
	int err = xp_pprof_new(&writing.pprof, out, &head);

	if (!err)
		err = put_code(&writing);
	xp_progress_line_begin_writing(&line, out, count);
	for (size_t i = 0; !err && i < count; i++) {
		xp_progress_line_step(&line, i);
		err = put_sample(&writing, &samples[i]);
	}
	xp_progress_line_end(&line);
	if (!err)
		err = xp_pprof_finish(writing.pprof);
	xp_pprof_free(writing.pprof);
	free(writing.locations);
	free(writing.objects);
	free(writing.functions);
	free(writing.code);
	return err;
}

int xp_export_pprof(FILE *out, struct xp_model *model, const struct xp_export_options *options)
{
	return xp_export_pprof_samples(out, model, options->by, model->samples, model->sample_count);
}
