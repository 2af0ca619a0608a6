// SPDX-License-Identifier: BSD-2-Clause
#include "model/sum.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_name.h"
#include "base/util.h"
#include "model/read_samples.h"

#define IMAGES_MAX 1000 /* maximum number of images to try for a process with another name */

/* Maps indexes in the part to indexes in the sum. */
struct adding {
	struct xp_model *sum;
	const struct xp_model *part;
	uint32_t *threads, *objects, *functions, *stacks;
};

/* Sets *text to a copy of a text that may be NULL. Returns false if out of memory. */
static bool copy_text(struct xp_model *sum, const char **text)
{
	const char *copy = *text ? xp_model_text(sum, *text) : NULL;
	bool is_copied = copy || !*text;

	*text = copy;
	return is_copied;
}

/* Image numbers start again in each part, and PIDs are reused: another program is another image. */
static int add_process(struct xp_model *sum, struct xp_model_process *process, uint32_t *index)
{
	int err = xp_model_process(sum, process, index);

	for (int i = 0; !err && i < IMAGES_MAX && sum->processes[*index].name != process->name; i++) {
		process->image++;
		err = xp_model_process(sum, process, index);
	}
	return err;
}

static int add_thread(struct adding *adding, size_t index)
{
	struct xp_model_thread thread = adding->part->threads[index];
	struct xp_model_process process = adding->part->processes[thread.process];
	int err;

	if (!copy_text(adding->sum, &thread.name) || !copy_text(adding->sum, &process.name) ||
	    !copy_text(adding->sum, &process.cgroup))
		return -ENOMEM;
	err = add_process(adding->sum, &process, &thread.process);
	return err ?: xp_model_thread(adding->sum, &thread, &adding->threads[index]);
}

static int add_object(struct adding *adding, size_t index)
{
	struct xp_model_object object = adding->part->objects[index];

	object.file = XP_MODEL_NONE;
	object.binary = NULL;
	if (!copy_text(adding->sum, &object.name) || !copy_text(adding->sum, &object.path))
		return -ENOMEM;
	return xp_model_object(adding->sum, &object, &adding->objects[index]);
}

static int add_function(struct adding *adding, size_t index)
{
	struct xp_model_function function = adding->part->functions[index];

	function.object = adding->objects[function.object];
	function.shown = NULL;
	if (!copy_text(adding->sum, &function.name) || !copy_text(adding->sum, &function.symbol) ||
	    !copy_text(adding->sum, &function.file))
		return -ENOMEM;
	return xp_model_function(adding->sum, &function, &adding->functions[index]);
}

/* The indexes of JIT functions are valid only in one part: use the function itself. */
static int add_location(struct adding *adding, const struct xp_model_location *from, uint32_t *index)
{
	const struct xp_model_frame *frames = &adding->part->frames[from->first_frame];
	struct xp_model *sum = adding->sum;
	uint32_t jit = from->jit == XP_MODEL_NONE ? XP_MODEL_NONE : adding->functions[frames->function];
	int err = xp_model_location(sum, adding->objects[from->object], from->address, jit, index);

	if (err || sum->locations[*index].frame_count)
		return err;
	if (XP_ARRAY_RESERVE(sum->frames, sum->frame_room, sum->frame_count + from->frame_count))
		return -ENOMEM;
	sum->locations[*index].first_frame = (uint32_t)sum->frame_count;
	sum->locations[*index].frame_count = from->frame_count;
	for (uint32_t i = 0; i < from->frame_count; i++)
		sum->frames[sum->frame_count++] =
		    (struct xp_model_frame){ adding->functions[frames[i].function], frames[i].line };
	return 0;
}

/* A stack beyond the limit, or with callers beyond it, becomes XP_MODEL_NONE. */
static int add_stack(struct adding *adding, size_t index)
{
	const struct xp_model_stack *stack = &adding->part->stacks[index];
	uint32_t callers = adding->stacks[stack->callers], location;
	int err;

	adding->stacks[index] = XP_MODEL_NONE;
	if (callers == XP_MODEL_NONE)
		return 0;
	err = add_location(adding, &adding->part->locations[stack->location], &location);
	err = err ?: xp_model_stack(adding->sum, callers, location, &adding->stacks[index]);
	return err == -E2BIG ? 0 : err;
}

static int add_sample(struct adding *adding, size_t index)
{
	struct xp_model_sample sample = adding->part->samples[index];
	int err;

	sample.stack = adding->stacks[sample.stack];
	sample.thread = adding->threads[sample.thread];
	err = sample.stack == XP_MODEL_NONE ? -E2BIG : xp_model_sample(adding->sum, &sample);
	adding->sum->dropped += err == -E2BIG;
	return err == -E2BIG ? 0 : err;
}

static int add_wait(struct adding *adding, size_t index)
{
	struct xp_model_wait wait = adding->part->waits[index];
	int err;

	wait.stack = adding->stacks[wait.stack];
	wait.thread = adding->threads[wait.thread];
	wait.first_slot = wait.last_slot = 0;
	if (wait.variable != XP_MODEL_NONE &&
	    add_location(adding, &adding->part->locations[wait.variable], &wait.variable))
		return -ENOMEM;
	if (!copy_text(adding->sum, &wait.waker_name))
		return -ENOMEM;
	err = wait.stack == XP_MODEL_NONE ? -E2BIG : xp_model_wait(adding->sum, &wait);
	adding->sum->dropped_waits += err == -E2BIG;
	return err == -E2BIG ? 0 : err;
}

static int add_hit(struct adding *adding, size_t index)
{
	struct xp_model_hit hit = adding->part->hits[index];
	int err;

	hit.thread = adding->threads[hit.thread];
	if (!copy_text(adding->sum, &hit.probe) || !copy_text(adding->sum, &hit.arguments))
		return -ENOMEM;
	err = xp_model_hit(adding->sum, &hit);
	adding->sum->dropped_hits += err == -E2BIG;
	return err == -E2BIG ? 0 : err;
}

static int add_each(struct adding *adding, int (*add)(struct adding *adding, size_t index), size_t first, size_t count)
{
	int err = 0;

	for (size_t i = first; !err && i < count; i++)
		err = add(adding, i);
	return err;
}

static int add_all(struct adding *adding)
{
	const struct xp_model *part = adding->part;
	int err = add_each(adding, add_thread, 0, part->thread_count);

	err = err ?: add_each(adding, add_object, 0, part->object_count);
	err = err ?: add_each(adding, add_function, 0, part->function_count);
	err = err ?: add_each(adding, add_stack, 1, part->stack_count); /* stacks[0] is the empty stack */
	err = err ?: add_each(adding, add_sample, 0, part->sample_count);
	err = err ?: add_each(adding, add_wait, 0, part->wait_count);
	return err ?: add_each(adding, add_hit, 0, part->hit_count);
}

/* Adds the facts about the whole recording. Parts follow each other in time. */
static int add_facts(struct xp_model *sum, const struct xp_model *part)
{
	const char *comment = part->comment;

	if (!sum->comment && !copy_text(sum, &comment))
		return -ENOMEM;
	sum->comment = sum->comment ? sum->comment : comment;
	sum->start_ns = sum->start_ns ? sum->start_ns : part->start_ns;
	sum->length_ns += part->length_ns;
	sum->period_ns = part->period_ns;
	sum->cycle_hz = part->cycle_hz;
	sum->full_names = part->full_names;
	sum->has_threads |= part->has_threads;
	sum->has_cpus |= part->has_cpus;
	sum->dropped += part->dropped;
	sum->dropped_waits += part->dropped_waits;
	sum->dropped_hits += part->dropped_hits;
	return 0;
}

int xp_model_add(struct xp_model *sum, const struct xp_model *part)
{
	struct adding adding = {
		.sum = sum,
		.part = part,
		.threads = calloc(part->thread_count + 1, sizeof(uint32_t)),
		.objects = calloc(part->object_count + 1, sizeof(uint32_t)),
		.functions = calloc(part->function_count + 1, sizeof(uint32_t)),
		.stacks = calloc(part->stack_count + 1, sizeof(uint32_t)),
	};
	bool has_room = adding.threads && adding.objects && adding.functions && adding.stacks;
	int err = has_room ? add_facts(sum, part) : -ENOMEM;

	err = err ?: add_all(&adding);
	free(adding.threads);
	free(adding.objects);
	free(adding.functions);
	free(adding.stacks);
	return err == -E2BIG ? -ENOMEM : err;
}

/* Whether a part has samples: of those without perf.data, nobody knows when they were. */
static bool has_perf_data(const struct xp_model_source *part)
{
	char path[PATH_MAX];

	return (size_t)snprintf(path, sizeof(path), "%s/" XP_PERF_DATA_NAME, part->directory) < sizeof(path) &&
	       !access(path, F_OK);
}

static int read_one(struct xp_model *model, const struct xp_model_source *source, bool *broken)
{
	return model->kind == XP_MODEL_CALLS ? xp_model_read_calls(model, source, broken)
					     : xp_model_read_samples(model, source, broken);
}

int xp_model_read_parts(struct xp_model *model, enum xp_name_detail detail, const struct xp_model_source *all,
			bool *broken)
{
	size_t count = all->recorded->directory_count;
	int err = count < 2 ? read_one(model, all, broken) : 0;

	for (size_t i = 0; !err && count > 1 && i < count; i++) {
		const struct xp_model_source source = xp_model_source_part(all, i);
		struct xp_model part;

		if (model->kind != XP_MODEL_CALLS && !has_perf_data(&source))
			continue;
		err = xp_model_init(&part, model->kind, detail);
		part.keep_times = model->keep_times;
		part.keep_waits = model->keep_waits;
		part.name_locks = model->name_locks;
		part.full_names = model->full_names;
		err = err ?: read_one(&part, &source, broken) ?: xp_model_add(model, &part);
		xp_model_free(&part);
	}
	return err;
}
