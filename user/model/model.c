// SPDX-License-Identifier: BSD-2-Clause
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
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

/* ---- keys: equal elements have equal ones ---- */

static uint64_t process_key(const void *elements, uint32_t index)
{
	const struct xp_model_process *process = (const struct xp_model_process *)elements + index;

	return xp_hash_mix(process->pid, process->image);
}

static uint64_t thread_key(const void *elements, uint32_t index)
{
	const struct xp_model_thread *thread = (const struct xp_model_thread *)elements + index;

	return xp_hash_mix(thread->tid, thread->process);
}

static uint64_t object_key(const void *elements, uint32_t index)
{
	const struct xp_model_object *object = (const struct xp_model_object *)elements + index;

	return xp_hash_mix(xp_hash_mix((uintptr_t)object->path, object->file), object->kind);
}

static uint64_t location_key(const void *elements, uint32_t index)
{
	const struct xp_model_location *location = (const struct xp_model_location *)elements + index;

	return xp_hash_mix(xp_hash_mix(location->address, location->object), location->jit);
}

static uint64_t stack_key(const void *elements, uint32_t index)
{
	const struct xp_model_stack *stack = (const struct xp_model_stack *)elements + index;

	return (uint64_t)stack->callers << 32 | stack->location;
}

static uint64_t function_key(const void *elements, uint32_t index)
{
	const struct xp_model_function *function = (const struct xp_model_function *)elements + index;

	return xp_hash_mix(
	    xp_hash_mix(xp_hash_mix((uintptr_t)function->name, (uintptr_t)function->symbol), (uintptr_t)function->file),
	    function->object);
}

static uint64_t sample_key(const void *elements, uint32_t index)
{
	const struct xp_model_sample *sample = (const struct xp_model_sample *)elements + index;

	uint64_t key = xp_hash_mix(xp_hash_mix(xp_hash_mix(sample->stack, sample->thread), sample->cpu), sample->state);

	return sample->time_ns ? xp_hash_mix(key, sample->time_ns) : key;
}

static uint64_t wait_key(const void *elements, uint32_t index)
{
	const struct xp_model_wait *wait = (const struct xp_model_wait *)elements + index;
	uint64_t key = xp_hash_mix((uint64_t)wait->thread << 32 | wait->stack, (uint64_t)wait->cpu << 32 | wait->state);

	key = xp_hash_mix(key, (uint64_t)wait->flags << 32 | wait->waker_tid);
	return xp_hash_mix(key, (uint64_t)wait->first_slot << 32 | wait->last_slot);
}

/* ---- equality ---- */

static bool same_process(const void *a, const void *b)
{
	const struct xp_model_process *x = a, *y = b;

	return x->pid == y->pid && x->image == y->image;
}

static bool same_thread(const void *a, const void *b)
{
	const struct xp_model_thread *x = a, *y = b;

	return x->process == y->process && x->tid == y->tid;
}

static bool same_object(const void *a, const void *b)
{
	const struct xp_model_object *x = a, *y = b;

	return x->path == y->path && x->file == y->file && x->kind == y->kind;
}

static bool same_location(const void *a, const void *b)
{
	const struct xp_model_location *x = a, *y = b;

	return x->address == y->address && x->object == y->object && x->jit == y->jit;
}

static bool same_stack(const void *a, const void *b)
{
	const struct xp_model_stack *x = a, *y = b;

	return x->callers == y->callers && x->location == y->location;
}

static bool same_function(const void *a, const void *b)
{
	const struct xp_model_function *x = a, *y = b;

	return x->name == y->name && x->symbol == y->symbol && x->file == y->file && x->object == y->object;
}

static bool same_sample(const void *a, const void *b)
{
	const struct xp_model_sample *x = a, *y = b;

	return x->stack == y->stack && x->thread == y->thread && x->cpu == y->cpu && x->state == y->state &&
	       x->time_ns == y->time_ns;
}

static bool same_wait(const void *a, const void *b)
{
	const struct xp_model_wait *x = a, *y = b;

	return x->thread == y->thread && x->stack == y->stack && x->cpu == y->cpu && x->state == y->state &&
	       x->flags == y->flags && x->waker_tid == y->waker_tid && x->first_slot == y->first_slot &&
	       x->last_slot == y->last_slot;
}

/* ---- sets ---- */

/* An array without duplicates. */
struct set {
	struct xp_hash *hash;
	xp_hash_key_of *key_of;
	bool (*same)(const void *a, const void *b);
	void *elements; /* the pointer to them, of whatever type */
	size_t *count;
	size_t *room;
	size_t element_bytes;
	size_t max;
};

#define SET(model, name, singular, limit)                                                                              \
	{                                                                                                              \
		&(model)->by_##singular, singular##_key, same_##singular, &(model)->name, &(model)->singular##_count,  \
		    &(model)->singular##_room, sizeof(*(model)->name), limit                                           \
	}

/* Finds an equal element or adds this one. */
static int set_add(const struct set *set, const void *element, uint32_t *index)
{
	uint64_t key = set->key_of(element, 0);
	char *elements, *grown;

	memcpy(&elements, set->elements, sizeof(elements));
	for (const uint32_t *slot = xp_hash_first(set->hash, key); *slot; slot = xp_hash_next(set->hash, slot)) {
		if (set->same(elements + (*slot - 1) * set->element_bytes, element)) {
			*index = *slot - 1;
			return 0;
		}
	}
	if (*set->count >= set->max)
		return -E2BIG;
	grown = xp_array_grow(elements, set->room, *set->count + 1, set->element_bytes);
	if (!grown)
		return -ENOMEM;
	memcpy(set->elements, &grown, sizeof(grown));
	*index = (uint32_t)*set->count;
	if (xp_hash_add(set->hash, key, *index, set->key_of, grown))
		return -ENOMEM;
	memcpy(grown + *set->count * set->element_bytes, element, set->element_bytes);
	++*set->count;
	return 0;
}

int xp_model_process(struct xp_model *model, const struct xp_model_process *process, uint32_t *index)
{
	const struct set set = SET(model, processes, process, XP_MODEL_THREADS_MAX);

	return set_add(&set, process, index);
}

int xp_model_thread(struct xp_model *model, const struct xp_model_thread *thread, uint32_t *index)
{
	const struct set set = SET(model, threads, thread, XP_MODEL_THREADS_MAX);

	return set_add(&set, thread, index);
}

int xp_model_object(struct xp_model *model, const struct xp_model_object *object, uint32_t *index)
{
	const struct set set = SET(model, objects, object, XP_MODEL_LOCATIONS_MAX);

	return set_add(&set, object, index);
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
	const struct set set = SET(model, locations, location, XP_MODEL_LOCATIONS_MAX);
	const struct xp_model_location location = { .object = object, .address = address, .jit = jit };

	return set_add(&set, &location, index);
}

int xp_model_stack(struct xp_model *model, uint32_t callers, uint32_t location, uint32_t *index)
{
	const struct set set = SET(model, stacks, stack, model->stack_max);
	const struct xp_model_stack stack = { .callers = callers, .location = location };

	return set_add(&set, &stack, index);
}

int xp_model_function(struct xp_model *model, const struct xp_model_function *function, uint32_t *index)
{
	const struct set set = SET(model, functions, function, UINT32_MAX - 1);
	char shown[XP_DEMANGLED_BYTES_MAX];
	int err = set_add(&set, function, index);

	if (err || model->functions[*index].shown)
		return err;
	/* Only mangled names have anything to shorten. */
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
	const struct set set = SET(model, samples, sample, XP_MODEL_SAMPLES_MAX);
	struct xp_model_sample without = *sample;
	uint32_t index;
	int err;

	if (model->keep_times)
		return append_sample(model, sample);
	if (model->sample_count >= XP_MODEL_SLOTTED_MAX)
		model->slot_ns = 0;
	memset(without.values, 0, sizeof(without.values));
	without.time_ns = model->slot_ns ? sample->time_ns - sample->time_ns % model->slot_ns : 0;
	err = set_add(&set, &without, &index);
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
		/* A file may claim waits of centuries. */
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
	if (XP_ARRAY_RESERVE(model->waits, model->wait_room, model->wait_count + 1))
		return -ENOMEM;
	model->waits[model->wait_count++] = *wait;
	return 0;
}

int xp_model_wait(struct xp_model *model, const struct xp_model_wait *wait)
{
	const struct set set = SET(model, waits, wait, XP_MODEL_WAITS_MAX);
	size_t count = model->wait_count;
	struct xp_model_wait *known;
	uint32_t index;
	int err;

	if (model->keep_times)
		return append_wait(model, wait);
	if (model->wait_count >= XP_MODEL_SLOTTED_MAX)
		model->slot_ns = 0;
	err = set_add(&set, wait, &index);
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

int xp_model_init_detail(struct xp_model *model, enum xp_model_kind kind, enum xp_name_detail detail)
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

int xp_model_init(struct xp_model *model, enum xp_model_kind kind)
{
	return xp_model_init_detail(model, kind, XP_NAMES_LINES);
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
					   &model->by_sample,	&model->by_wait };
	void *const arrays[] = { model->processes, model->threads, model->objects, model->locations, model->stacks,
				 model->functions, model->frames,  model->samples, model->waits };

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
