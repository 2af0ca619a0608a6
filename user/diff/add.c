// SPDX-License-Identifier: BSD-2-Clause
/* Adds the models of A and B to the common model. */
#include "diff/diff.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"
#include "elf/demangle.h"

/* A model that is being added to the common model. */
struct adding {
	struct xp_diff *diff;
	size_t side;
	const struct xp_model *from;
	/* The index in the common model for each index in `from`. */
	uint32_t *objects, *functions, *locations, *stacks, *threads;
	struct xp_u64_map comms; /* names of its processes */
	uint64_t first;		 /* number of locations in the models before it */
};

/* ---- names that do not depend on the build ---- */

/*
 * Returns the start of a compiler's suffix, or the end of the name if there is none: "foo.constprop.0" and "foo.cold"
 * are parts of foo. In demangled names, the suffix is " [clone .constprop.0]".
 */
static char *find_suffix(char *name, size_t length)
{
	static const char *const kinds[] = { "constprop", "isra", "part", "cold", "llvm", "lto_priv" };
	static const char clone[] = " [clone .";
	char *end = name + length, *tail = end, *at, *start;

	if (length && end[-1] == ']')
		tail--;
	at = tail;
	while (at > name && (isdigit((unsigned char)at[-1]) || at[-1] == '.'))
		at--;
	for (start = at; start > name && (islower((unsigned char)start[-1]) || start[-1] == '_');)
		start--;
	if (start == name || start[-1] != '.')
		return end;
	for (size_t i = 0; i < XP_ARRAY_SIZE(kinds); i++) {
		if (strncmp(start, kinds[i], strlen(kinds[i])) != 0 || start + strlen(kinds[i]) != at)
			continue;
		if (at == tail && strcmp(kinds[i], "cold") != 0)
			return end;
		start--;
		if (end[-1] != ']')
			return start;
		start -= strlen(clone) - 1;
		return start > name && memcmp(start, clone, strlen(clone)) == 0 ? start : end;
	}
	return end;
}

static void cut_suffixes(char *name)
{
	size_t length = strlen(name);
	char *suffix;

	while ((suffix = find_suffix(name, length)) > name && suffix < name + length) {
		length = (size_t)(suffix - name);
		name[length] = '\0';
	}
}

static bool is_hex(const char *text)
{
	return text[0] == '0' && text[1] == 'x' && text[2] && strspn(text + 2, "0123456789abcdef") == strlen(text + 2);
}

/* Returns whether a name was made of an address ("object+0x12"), or of the number of a function in a log ("fn_12"). */
static bool is_made_up(const char *name, const char *object)
{
	size_t length = strlen(object);

	if (!*object && strncmp(name, "fn_", 3) == 0 && strspn(name + 3, "0123456789") == strlen(name + 3))
		return true;
	if (strncmp(name, object, length) == 0 && name[length] == '+')
		return is_hex(name + length + 1);
	return is_hex(name);
}

static const char *name_of(struct adding *adding, const struct xp_model_function *function)
{
	const char *object = adding->from->objects[function->object].name;
	char name[XP_DEMANGLED_BYTES_MAX + 1];

	if (!function->has_name || is_made_up(function->shown, object)) {
		snprintf(name, sizeof(name), *object == '[' ? "%.400s" : "[%.400s]", *object ? object : "unknown");
	} else {
		snprintf(name, sizeof(name), "%.*s", (int)xp_text_fit(function->shown, sizeof(name) - 1),
			 function->shown);
		cut_suffixes(name);
	}
	return xp_model_text(&adding->diff->model, name);
}

/* ---- adding a model ---- */

static int add_objects(struct adding *adding)
{
	int err = 0;

	for (size_t i = 0; !err && i < adding->from->object_count; i++) {
		const struct xp_model_object *from = &adding->from->objects[i];
		struct xp_model_object object = { .kind = from->kind, .file = XP_MODEL_NONE };

		object.name = object.path = xp_model_text(&adding->diff->model, from->name);
		err = object.name ? xp_model_object(&adding->diff->model, &object, &adding->objects[i]) : -ENOMEM;
	}
	return err;
}

static int add_functions(struct adding *adding)
{
	int err = 0;

	for (size_t i = 0; !err && i < adding->from->function_count; i++) {
		const struct xp_model_function *from = &adding->from->functions[i];
		struct xp_model_function function = {
			.name = name_of(adding, from),
			.object = adding->objects[from->object],
			.kind = from->kind,
			.has_name = from->has_name,
		};

		function.symbol = function.name;
		err =
		    function.name ? xp_model_function(&adding->diff->model, &function, &adding->functions[i]) : -ENOMEM;
	}
	return err;
}

/* Adds a location. A and B have no common locations; the tree combines their functions. */
static int add_location(struct adding *adding, size_t index)
{
	const struct xp_model_location *from = &adding->from->locations[index];
	struct xp_model *model = &adding->diff->model;
	uint32_t *to = &adding->locations[index];
	int err =
	    xp_model_location(model, adding->objects[from->object], adding->first + index, (uint32_t)adding->side, to);

	if (err)
		return err;
	if (XP_ARRAY_RESERVE(model->frames, model->frame_room, model->frame_count + from->frame_count))
		return -ENOMEM;
	model->locations[*to].first_frame = (uint32_t)model->frame_count;
	model->locations[*to].frame_count = from->frame_count;
	for (uint32_t i = 0; i < from->frame_count; i++)
		model->frames[model->frame_count++] = (struct xp_model_frame){
			.function = adding->functions[adding->from->frames[from->first_frame + i].function],
		};
	return 0;
}

/* Adds a thread. Processes with the same name are the same process. */
static int add_thread(struct adding *adding, size_t index)
{
	const struct xp_model_process *from = &adding->from->processes[adding->from->threads[index].process];
	struct xp_model *model = &adding->diff->model;
	struct xp_model_process process = { .name = xp_model_text(model, from->name) };
	struct xp_model_thread thread = { .name = process.name };
	struct xp_u64_map *known = &adding->diff->comms;
	uint32_t *number;
	int err;

	if (!process.name)
		return -ENOMEM;
	number = xp_u64_map_add(known, (uintptr_t)process.name, (uint32_t)known->count);
	if (!number || !xp_u64_map_add(&adding->comms, (uintptr_t)process.name, 0))
		return -ENOMEM;
	process.image = *number;
	err = xp_model_process(model, &process, &thread.process);
	return err ? err : xp_model_thread(model, &thread, &adding->threads[index]);
}

/* Updates the mean period of all samples of the side. */
static void add_period(struct xp_diff_side *side, const struct xp_model *from, const uint64_t totals[2])
{
	double before = from->kind == XP_MODEL_SAMPLES ? (double)side->total : 0;

	if (totals[0])
		side->period_ns = (side->period_ns * before + (double)totals[1]) / (before + (double)totals[0]);
	else if (!side->period_ns)
		side->period_ns = (double)from->period_ns;
}

static int add_samples(struct adding *adding)
{
	size_t value = adding->from->kind != XP_MODEL_SAMPLES;
	struct xp_diff_side *side = &adding->diff->sides[adding->side];
	uint64_t totals[2];
	int err = 0;

	for (size_t i = 0; !err && i < adding->from->sample_count; i++) {
		const struct xp_model_sample *from = &adding->from->samples[i];
		struct xp_model_sample sample = {
			.stack = adding->stacks[from->stack],
			.thread = adding->threads[from->thread],
			.cpu = XP_MODEL_CPU_UNKNOWN,
		};

		sample.values[adding->side] = from->values[value];
		err = xp_model_sample(&adding->diff->model, &sample);
	}
	xp_model_totals(adding->from, totals);
	add_period(side, adding->from, totals);
	side->total += totals[value];
	side->length_ns += adding->from->length_ns;
	side->many_processes |= adding->comms.count > 1;
	return err;
}

static struct xp_diff_calls *calls_of(struct adding *adding, const struct xp_model_location *location)
{
	uint32_t function = adding->functions[adding->from->frames[location->first_frame].function];
	struct xp_diff *diff = adding->diff;

	if (XP_ARRAY_RESERVE(diff->calls, diff->calls_room, (size_t)function + 1))
		return NULL;
	for (; diff->calls_count <= function; diff->calls_count++)
		diff->calls[diff->calls_count] = (struct xp_diff_calls){ 0 };
	return &diff->calls[function];
}

static int add_durations(struct adding *adding)
{
	const struct xp_model *from = adding->from;
	int err = 0;

	adding->diff->sides[adding->side].cycle_hz = from->cycle_hz;
	for (size_t i = 0; !err && i < from->call_time_count; i++) {
		const struct xp_model_call_times *times = &from->call_times[i];
		struct xp_diff_calls *calls = calls_of(adding, &from->locations[i]);

		if (!calls)
			return -ENOMEM;
		calls->ended[adding->side] += times->durations.count;
		if (from->cycle_hz)
			calls->ns[adding->side] += times->cycles * 1e9 / (double)from->cycle_hz;
		err = xp_durations_merge(&calls->durations[adding->side], &adding->diff->durations_memory,
					 &times->durations);
	}
	return err;
}

static int add_calls(struct adding *adding)
{
	const struct xp_model *from = adding->from;

	for (size_t i = 0; i < from->sample_count; i++) {
		const struct xp_model_sample *sample = &from->samples[i];
		struct xp_diff_calls *calls =
		    sample->stack ? calls_of(adding, &from->locations[from->stacks[sample->stack].location]) : NULL;

		if (sample->stack && !calls)
			return -ENOMEM;
		adding->diff->sides[adding->side].calls += sample->values[0];
		if (calls)
			calls->calls[adding->side] += sample->values[0];
	}
	return add_durations(adding);
}

static int add_all(struct adding *adding)
{
	const struct xp_model *from = adding->from;
	int err = add_objects(adding);

	if (!err)
		err = add_functions(adding);
	for (size_t i = 0; !err && i < from->location_count; i++)
		err = add_location(adding, i);
	for (size_t i = 1; !err && i < from->stack_count; i++)
		err = xp_model_stack(&adding->diff->model, adding->stacks[from->stacks[i].callers],
				     adding->locations[from->stacks[i].location], &adding->stacks[i]);
	for (size_t i = 0; !err && i < from->thread_count; i++)
		err = add_thread(adding, i);
	if (!err)
		err = add_samples(adding);
	return err || from->kind != XP_MODEL_CALLS ? err : add_calls(adding);
}

int xp_diff_add(struct xp_diff *diff, size_t side, const struct xp_model *model)
{
	struct adding adding = { .diff = diff, .side = side, .from = model, .first = diff->locations };
	const struct {
		uint32_t **to;
		size_t count;
	} arrays[] = {
		{ &adding.objects, model->object_count },     { &adding.functions, model->function_count },
		{ &adding.locations, model->location_count }, { &adding.stacks, model->stack_count },
		{ &adding.threads, model->thread_count },
	};
	int err = 0;

	for (size_t i = 0; i < XP_ARRAY_SIZE(arrays); i++) {
		*arrays[i].to = calloc(XP_MAX(arrays[i].count, (size_t)1), sizeof(**arrays[i].to));
		if (!*arrays[i].to)
			err = -ENOMEM;
	}
	if (!err)
		err = add_all(&adding);
	for (size_t i = 0; i < XP_ARRAY_SIZE(arrays); i++)
		free(*arrays[i].to);
	diff->locations += model->location_count;
	xp_u64_map_free(&adding.comms);
	return err;
}
