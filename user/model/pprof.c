// SPDX-License-Identifier: BSD-2-Clause
#include "model/pprof.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file_view.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "format/pprof_reader.h"
#include "model/objects.h"

/* Of one sample: the sum of as many as a file can have is in 64 bits. */
#define COUNT_MAX (INT64_C(1) << 40)

/* Which of a sample's values counts samples or calls, and which is their time. */
struct values {
	size_t count_index;
	size_t ns_index; /* the number of values: none */
};

struct making {
	struct xp_model *model;
	const struct xp_pprof_profile *profile;
	const struct xp_select *select;
	const char **texts;  /* the profile's, clean; NULL: not used yet */
	uint32_t *locations; /* of the model, by those of the profile */
	uint32_t *path;	     /* locations of a sample */
	size_t path_room;
	struct xp_u64_map by_name; /* processes */
	struct values values;
};

/* NULL: out of memory. */
static const char *text_of(struct making *making, uint32_t index)
{
	const struct xp_pprof_text *from = &making->profile->texts[index];
	char *copy;

	if (making->texts[index])
		return making->texts[index];
	copy = strndup(from->text, from->bytes);
	if (copy)
		making->texts[index] = xp_model_text(making->model, copy);
	free(copy);
	return making->texts[index];
}

static bool is_text(const struct xp_pprof_profile *profile, uint32_t index, const char *text)
{
	const struct xp_pprof_text *its = &profile->texts[index];

	return its->bytes == strlen(text) && memcmp(its->text, text, its->bytes) == 0;
}

/* ---- code ---- */

static int add_object(struct making *making, uint32_t mapping, uint32_t *index)
{
	struct xp_model_object object = { .kind = XP_CODE_USER, .file = XP_MODEL_NONE };
	char label[XP_OBJECT_LABEL_BYTES];

	object.path =
	    mapping == XP_PPROF_NO_MAPPING ? "" : text_of(making, making->profile->mappings[mapping].filename_text);
	if (!object.path)
		return -ENOMEM;
	object.name = xp_model_text(making->model, xp_object_label(label, sizeof(label), object.path));
	if (!object.name)
		return -ENOMEM;
	if (strncmp(object.path, "[kernel", strlen("[kernel")) == 0)
		object.kind = XP_CODE_KERNEL;
	else if (strcmp(object.path, "[jit]") == 0)
		object.kind = XP_CODE_JIT;
	else if (!*object.path || strcmp(object.path, "[unknown]") == 0 || strcmp(object.path, "[anon]") == 0)
		object.kind = XP_CODE_UNKNOWN;
	return xp_model_object(making->model, &object, index);
}

static int add_frame(struct making *making, uint32_t object, const char *name, const struct xp_pprof_read_line *line)
{
	const struct xp_pprof_read_function *from = line ? &making->profile->functions[line->function] : NULL;
	struct xp_model *model = making->model;
	struct xp_model_function function = {
		.name = name,
		.symbol = name,
		.object = object,
		.kind = model->objects[object].kind,
	};
	struct xp_model_frame frame = { .line = line && line->line > 0 ? (uint32_t)line->line : 0 };
	int err;

	if (from && making->profile->texts[from->name_text].bytes) {
		function.name = text_of(making, from->name_text);
		/* Names as the maker shows them are not shortened again. */
		function.symbol = function.name;
		function.has_name = true;
	}
	if (from && from->filename_text)
		function.file = text_of(making, from->filename_text);
	if (!function.name || XP_ARRAY_RESERVE(model->frames, model->frame_room, model->frame_count + 1))
		return -ENOMEM;
	err = xp_model_function(model, &function, &frame.function);
	if (!err)
		model->frames[model->frame_count++] = frame;
	return err;
}

static int add_location(struct making *making, size_t index)
{
	const struct xp_pprof_read_location *from = &making->profile->locations[index];
	struct xp_model *model = making->model;
	struct xp_model_location *location;
	uint32_t object;
	/* The number of the location keeps those of the same address apart. */
	int err = add_object(making, from->mapping, &object);

	if (!err)
		err = xp_model_location(model, object, from->address, (uint32_t)index, &making->locations[index]);
	if (err)
		return err;
	location = &model->locations[making->locations[index]];
	location->first_frame = (uint32_t)model->frame_count;
	location->frame_count = XP_MAX(from->line_count, 1u);
	for (uint32_t i = 0; !err && i < location->frame_count; i++) {
		char name[XP_OBJECT_LABEL_BYTES + 32];
		const struct xp_pprof_read_line *line =
		    from->line_count ? &making->profile->lines[from->first_line + i] : NULL;

		snprintf(name, sizeof(name), "%s+0x%" PRIx64, model->objects[object].name, from->address);
		err = add_frame(making, object, xp_model_text(model, name), line);
	}
	return err;
}

/* ---- samples ---- */

/* Processes are told apart by name only. *is_selected: by name. */
static int add_thread(struct making *making, size_t index, uint32_t *thread, bool *is_selected)
{
	struct xp_model_process process = { .name = "" };
	struct xp_model_thread new = { .name = "" };
	struct xp_pprof_read_label label;
	struct xp_pprof_parts parts;
	uint32_t *number;
	int err;

	xp_pprof_parts_start(&parts, making->profile, index);
	while (process.name && new.name && xp_pprof_labels_next(&parts, &label)) {
		if (label.str_text && is_text(making->profile, label.key_text, "comm"))
			process.name = text_of(making, label.str_text);
		else if (label.str_text && is_text(making->profile, label.key_text, "thread_comm"))
			new.name = text_of(making, label.str_text);
	}
	if (!process.name || !new.name)
		return -ENOMEM;
	*is_selected = xp_select_thread(making->select, 0, 0, process.name, new.name);
	number = xp_u64_map_add(&making->by_name, (uintptr_t)process.name, (uint32_t)making->by_name.count);
	if (!number)
		return -ENOMEM;
	process.image = *number;
	err = xp_model_process(making->model, &process, &new.process);
	return err ? err : xp_model_thread(making->model, &new, thread);
}

/* Reads the count of a sample, and its time in ns. What is below 0 is 0. */
static void read_values(const struct making *making, size_t sample, uint64_t to[2])
{
	struct xp_pprof_parts parts;
	int64_t value;

	xp_pprof_parts_start(&parts, making->profile, sample);
	for (size_t i = 0; xp_pprof_values_next(&parts, &value); i++) {
		if (i == making->values.count_index)
			to[0] = value > 0 ? (uint64_t)XP_MIN(value, COUNT_MAX) : 0;
		if (i == making->values.ns_index)
			to[1] = value > 0 ? (uint64_t)value : 0;
	}
}

static int add_sample(struct making *making, size_t index)
{
	struct xp_model_sample sample = { .cpu = XP_MODEL_CPU_UNKNOWN };
	struct xp_pprof_parts parts;
	size_t depth = 0;
	bool is_selected;
	int err = add_thread(making, index, &sample.thread, &is_selected);

	if (err || !is_selected)
		return err;
	read_values(making, index, sample.values);
	if (making->values.ns_index == making->profile->type_count)
		sample.values[1] = sample.values[0] * making->model->period_ns;
	xp_pprof_parts_start(&parts, making->profile, index);
	for (;;) {
		if (XP_ARRAY_RESERVE(making->path, making->path_room, depth + 1))
			return -ENOMEM;
		if (!xp_pprof_locations_next(&parts, &making->path[depth]))
			break;
		depth++;
	}
	/* The innermost comes first. */
	for (; !err && depth; depth--)
		err = xp_model_stack(making->model, sample.stack, making->locations[making->path[depth - 1]],
				     &sample.stack);
	if (!err)
		err = xp_model_sample(making->model, &sample);
	if (err != -E2BIG)
		return err;
	making->model->dropped += sample.values[0];
	return 0;
}

/* ---- the profile ---- */

bool xp_pprof_file_is_one(const char *path)
{
	struct xp_file_view view;
	bool is_one;

	if (xp_file_view_open(&view, AT_FDCWD, path))
		return false;
	is_one = xp_pprof_probe(view.bytes, view.size);
	xp_file_view_close(&view);
	return is_one;
}

/* Returns false if no value counts. */
static bool choose_values(struct making *making)
{
	const struct xp_pprof_profile *profile = making->profile;
	struct values values = { profile->type_count, profile->type_count };

	for (size_t i = profile->type_count; i; i--) {
		const struct xp_pprof_type *type = &profile->types[i - 1];

		if (is_text(profile, type->unit_text, "count"))
			values.count_index = i - 1;
		else if (is_text(profile, type->unit_text, "nanoseconds"))
			values.ns_index = i - 1;
	}
	making->values = values;
	if (values.count_index == profile->type_count)
		return false;
	if (is_text(profile, profile->types[values.count_index].type_text, "calls"))
		making->model->kind = XP_MODEL_CALLS;
	else if (is_text(profile, profile->period_type.unit_text, "nanoseconds") && profile->period > 0)
		making->model->period_ns = (uint64_t)profile->period;
	return true;
}

static int read_file(struct xp_pprof_profile *profile, const char *path)
{
	struct xp_violation violation;
	struct xp_file_view view;
	int err = xp_file_view_open(&view, AT_FDCWD, path);

	if (err)
		return err;
	err = xp_pprof_read(profile, view.bytes, view.size, &violation);
	xp_file_view_close(&view);
	if (err == -EBADMSG)
		xp_error("%s: 0x%" PRIx64 ": %s", path, violation.offset, violation.text);
	return err;
}

static int make(struct making *making, const char *path)
{
	const struct xp_pprof_profile *profile = making->profile;
	struct xp_model *model = making->model;
	int err = 0;

	if (!choose_values(making)) {
		xp_error("%s: it has no value that counts something", path);
		return -EBADMSG;
	}
	model->start_ns = profile->time_ns > 0 ? (uint64_t)profile->time_ns : 0;
	model->length_ns = profile->duration_ns > 0 ? (uint64_t)profile->duration_ns : 0;
	making->texts = calloc(XP_MAX(profile->text_count, (size_t)1), sizeof(*making->texts));
	making->locations = calloc(XP_MAX(profile->location_count, (size_t)1), sizeof(*making->locations));
	if (!making->texts || !making->locations)
		return -ENOMEM;
	for (size_t i = 0; !err && i < profile->location_count; i++)
		err = add_location(making, i);
	for (size_t i = 0; !err && i < profile->sample_count; i++)
		err = add_sample(making, i);
	if (err == -E2BIG) {
		xp_error("%s: it has too many locations", path);
		err = -EBADMSG;
	}
	return err ? err : xp_select_stacks(making->select, model);
}

int xp_model_read_pprof(struct xp_model *model, const char *path, const struct xp_select *select)
{
	struct xp_pprof_profile profile = { 0 };
	struct making making = { .model = model, .profile = &profile, .select = select };
	int err = xp_model_init(model, XP_MODEL_SAMPLES);

	if (!err)
		err = read_file(&profile, path);
	if (!err)
		err = make(&making, path);
	xp_u64_map_free(&making.by_name);
	free(making.texts);
	free(making.locations);
	free(making.path);
	xp_pprof_profile_free(&profile);
	return err;
}
