// SPDX-License-Identifier: BSD-2-Clause
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/set.h"
#include "base/util.h"
#include "elf/demangle.h"

#define SLOT_PARTS_MAX (32u << 20)

const char *xp_model_kind_name(enum xp_model_kind kind)
{
	static const char *const names[] = {
		[XP_MODEL_SAMPLES] = "samples",
		[XP_MODEL_CALLS] = "calls",
		[XP_MODEL_WAITS] = "waits",
	};

	return names[kind];
}

/* ---- sets ---- */

#define SET(model, name, singular, identity, limit)                                                                    \
	{                                                                                                              \
		&(model)->by_##singular, &(model)->name, &(model)->singular##_count, &(model)->singular##_room,        \
		    sizeof(*(model)->name), XP_SET_IDENTITY(*(model)->name, identity), limit                           \
	}

int xp_model_process(struct xp_model *model, const struct xp_model_process *process, uint32_t *index)
{
	const struct xp_set set = SET(model, processes, process, image, XP_MODEL_THREADS_MAX);

	return xp_set_add(&set, process, index);
}

int xp_model_thread(struct xp_model *model, const struct xp_model_thread *thread, uint32_t *index)
{
	const struct xp_set set = SET(model, threads, thread, process, XP_MODEL_THREADS_MAX);

	return xp_set_add(&set, thread, index);
}

int xp_model_object(struct xp_model *model, const struct xp_model_object *object, uint32_t *index)
{
	const struct xp_set set = SET(model, objects, object, kind, XP_MODEL_LOCATIONS_MAX);

	return xp_set_add(&set, object, index);
}

int xp_model_object_named(struct xp_model *model, const char *name, const char *path, enum xp_code_kind kind,
			  uint32_t *index)
{
	const struct xp_model_object new = {
		.name = xp_model_text(model, name),
		.path = xp_model_text(model, path),
		.kind = kind,
		.file = XP_MODEL_NONE,
	};

	return new.name &&new.path ? xp_model_object(model, &new, index) : -ENOMEM;
}

int xp_model_location(struct xp_model *model, uint32_t object, uint64_t address, uint32_t jit, uint32_t *index)
{
	const struct xp_set set = SET(model, locations, location, jit, XP_MODEL_LOCATIONS_MAX);
	const struct xp_model_location location = { .object = object, .address = address, .jit = jit };

	return xp_set_add(&set, &location, index);
}

int xp_model_stack(struct xp_model *model, uint32_t callers, uint32_t location, uint32_t *index)
{
	const struct xp_set set = SET(model, stacks, stack, location, model->stack_max);
	const struct xp_model_stack stack = { .callers = callers, .location = location };

	return xp_set_add(&set, &stack, index);
}

int xp_model_function(struct xp_model *model, const struct xp_model_function *function, uint32_t *index)
{
	const struct xp_set set = SET(model, functions, function, object, UINT32_MAX - 1);
	char shown[XP_DEMANGLED_BYTES_MAX];
	int err = xp_set_add(&set, function, index);

	if (err || model->functions[*index].shown)
		return err;
	/* Only mangled names can be shortened. */
	if (!model->full_names && function->name != function->symbol) {
		xp_short_name(shown, sizeof(shown), function->name);
		model->functions[*index].shown = xp_model_text(model, shown);
	} else {
		model->functions[*index].shown = function->name;
	}
	return model->functions[*index].shown ? 0 : -ENOMEM;
}

static int append_sample(struct xp_model *model, const struct xp_model_sample *sample)
{
	if (model->sample_count == XP_MODEL_SAMPLES_MAX)
		return -E2BIG;
	if (XP_ARRAY_RESERVE(model->samples, model->sample_room, model->sample_count + 1))
		return -ENOMEM;
	model->samples[model->sample_count] = *sample;
	for (size_t i = 0; i < XP_ARRAY_SIZE(sample->values); i++)
		model->samples[model->sample_count].values[i] = xp_add_capped(&model->totals[i], sample->values[i]);
	model->sample_count++;
	return 0;
}

int xp_model_sample(struct xp_model *model, const struct xp_model_sample *sample)
{
	const struct xp_set set = SET(model, samples, sample, time_ns, XP_MODEL_SAMPLES_MAX);
	struct xp_model_sample without = *sample;
	uint32_t index;
	int err;

	if (model->keep_times)
		return append_sample(model, sample);
	if (model->sample_count >= XP_MODEL_SLOTTED_MAX)
		model->slot_ns = 0;
	memset(without.values, 0, sizeof(without.values));
	without.time_ns = model->slot_ns ? sample->time_ns - sample->time_ns % model->slot_ns : 0;
	err = xp_set_add(&set, &without, &index);
	for (size_t i = 0; !err && i < XP_ARRAY_SIZE(sample->values); i++)
		model->samples[index].values[i] += xp_add_capped(&model->totals[i], sample->values[i]);
	return err;
}

int xp_model_sample_over(struct xp_model *model, const struct xp_model_sample *sample, uint64_t begin_ns,
			 uint64_t end_ns)
{
	struct xp_model_sample part = *sample;
	uint64_t done = 0;
	int err = 0;

	part.values[0] = 0;
	for (uint64_t at = begin_ns; !err && model->slot_ns && at / model->slot_ns < end_ns / model->slot_ns;) {
		/* A file may contain waits of centuries. */
		if (model->slot_parts++ == SLOT_PARTS_MAX) {
			model->slot_ns = 0;
			break;
		}
		part.time_ns = at;
		at = (at / model->slot_ns + 1) * model->slot_ns;
		part.values[1] =
		    (uint64_t)((double)sample->values[1] * (double)(at - begin_ns) / (double)(end_ns - begin_ns)) -
		    done;
		done += part.values[1];
		err = part.values[1] ? xp_model_sample(model, &part) : 0;
	}
	part.time_ns = end_ns;
	part.values[0] = sample->values[0];
	part.values[1] = sample->values[1] - done;
	return err ?: xp_model_sample(model, &part);
}

static int append_wait(struct xp_model *model, const struct xp_model_wait *wait)
{
	if (model->wait_count == XP_MODEL_WAITS_MAX)
		return -E2BIG;
	return XP_ARRAY_ADD(model->waits, model->wait_count, model->wait_room, *wait);
}

int xp_model_wait(struct xp_model *model, const struct xp_model_wait *wait)
{
	const struct xp_set set = SET(model, waits, wait, last_slot, XP_MODEL_WAITS_MAX);
	size_t count = model->wait_count;
	struct xp_model_wait *known;
	uint32_t index;
	int err;

	if (model->keep_times)
		return append_wait(model, wait);
	if (model->wait_count >= XP_MODEL_SLOTTED_MAX)
		model->slot_ns = 0;
	err = xp_set_add(&set, wait, &index);
	if (err || model->wait_count > count)
		return err;
	known = &model->waits[index];
	known->recorded += wait->recorded;
	known->count += wait->count;
	xp_add_capped(&known->total_ns, wait->total_ns);
	xp_add_capped(&known->total_runnable_ns, wait->total_runnable_ns);
	if (wait->end_ns - wait->begin_ns > known->end_ns - known->begin_ns) {
		known->begin_ns = wait->begin_ns;
		known->end_ns = wait->end_ns;
		known->runnable_ns = wait->runnable_ns;
	}
	return 0;
}

int xp_model_hit(struct xp_model *model, const struct xp_model_hit *hit)
{
	const struct xp_set set = SET(model, hits, hit, cpu, XP_MODEL_HITS_MAX);
	size_t count = model->hit_count;
	uint32_t index;
	int err;

	if (model->keep_times) {
		if (model->hit_count == XP_MODEL_HITS_MAX)
			return -E2BIG;
		if (XP_ARRAY_RESERVE(model->hits, model->hit_room, model->hit_count + 1))
			return -ENOMEM;
		model->hits[model->hit_count++] = *hit;
		return 0;
	}
	err = xp_set_add(&set, hit, &index);
	if (!err && model->hit_count == count)
		model->hits[index].count += hit->count;
	return err;
}

int xp_model_call(struct xp_model *model, uint32_t location, uint64_t cycles)
{
	struct xp_model_call_times *times;

	if (XP_ARRAY_RESERVE(model->call_times, model->call_time_room, (size_t)location + 1))
		return -ENOMEM;
	for (; model->call_time_count <= location; model->call_time_count++)
		model->call_times[model->call_time_count] = (struct xp_model_call_times){ 0 };
	times = &model->call_times[location];
	times->cycles += (double)cycles;
	return xp_durations_add(&times->durations, &model->durations_memory, cycles, 0, 0);
}

/* ---- the model ---- */

int xp_model_init(struct xp_model *model, enum xp_model_kind kind, enum xp_name_detail detail)
{
	uint32_t empty;

	*model = (struct xp_model){
		.kind = kind,
		.keep_waits = kind == XP_MODEL_WAITS,
		.durations_memory.max = XP_DURATIONS_BYTES_MAX,
		.stack_max = XP_MODEL_STACKS_MAX,
	};
	return xp_symbolizer_new(&model->symbolizer, detail)
		   ?: xp_model_stack(model, XP_MODEL_NONE, XP_MODEL_NONE, &empty);
}

const char *xp_model_text(struct xp_model *model, const char *text)
{
	return xp_symbolizer_text(model->symbolizer, text);
}

int xp_model_cgroup(struct xp_model *model, const char *path, struct xp_model_process *process)
{
	process->cgroup = path ? xp_model_text(model, path) : NULL;
	return path && !process->cgroup ? -ENOMEM : 0;
}

struct xp_model_sample *xp_model_take_samples(struct xp_model *model, size_t *count)
{
	struct xp_model_sample *samples = model->samples;

	*count = model->sample_count;
	model->samples = NULL;
	model->sample_count = model->sample_room = 0;
	memset(model->totals, 0, sizeof(model->totals));
	xp_hash_free(&model->by_sample);
	return samples;
}

void xp_model_totals(const struct xp_model *model, uint64_t totals[2])
{
	totals[0] = totals[1] = 0;
	for (size_t i = 0; i < model->sample_count; i++) {
		totals[0] += model->samples[i].values[0];
		totals[1] += model->samples[i].values[1];
	}
}

void xp_model_free(struct xp_model *model)
{
	struct xp_hash *const hashes[] = { &model->by_process,	&model->by_thread, &model->by_object,
					   &model->by_location, &model->by_stack,  &model->by_function,
					   &model->by_sample,	&model->by_wait,   &model->by_hit };
	void *const arrays[] = { model->processes, model->threads, model->objects, model->locations, model->stacks,
				 model->functions, model->frames,  model->samples, model->waits,     model->hits };

	for (size_t i = 0; i < model->call_time_count; i++)
		xp_durations_free(&model->call_times[i].durations, &model->durations_memory);
	free(model->call_times);
	for (size_t i = 0; i < XP_ARRAY_SIZE(hashes); i++)
		xp_hash_free(hashes[i]);
	for (size_t i = 0; i < XP_ARRAY_SIZE(arrays); i++)
		free(arrays[i]);
	xp_symbolizer_free(model->symbolizer);
	memset(model, 0, sizeof(*model));
}
