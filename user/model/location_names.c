// SPDX-License-Identifier: BSD-2-Clause
#include "model/location_names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/util.h"

/* Requests the name of a location. *place: XP_MODEL_NONE if it has none. */
static int want_name(struct xp_model *model, size_t index, uint32_t *place)
{
	const struct xp_model_location *location = &model->locations[index];
	uint32_t file = model->objects[location->object].file;
	int err = -E2BIG;

	if (file != XP_MODEL_NONE && location->jit == XP_MODEL_NONE && !model->only_jit_names)
		err = xp_symbolizer_want(model->symbolizer, file, location->address, place);
	if (err == -E2BIG)
		*place = XP_MODEL_NONE;
	return err == -E2BIG ? 0 : err;
}

/* Returns the name of code without a symbol, as in `xprof report`. */
static const char *place_name(struct xp_model *model, const struct xp_model_location *location)
{
	const char *object = model->objects[location->object].name, *path = model->objects[location->object].path;
	char name[512];

	if (*path == '[' && model->objects[location->object].file == XP_MODEL_NONE)
		return path;
	if (*object)
		snprintf(name, sizeof(name), "%.*s+0x%" PRIx64, (int)xp_text_fit(object, 400), object,
			 location->address);
	else
		snprintf(name, sizeof(name), "0x%" PRIx64, location->address);
	return xp_model_text(model, name);
}

static int add_frame(struct xp_model *model, const struct xp_model_location *location,
		     const struct xp_source_frame *frame)
{
	struct xp_model_function function = {
		.name = frame->function,
		.symbol = frame->symbol ? frame->symbol : frame->function,
		.file = frame->file,
		.object = location->object,
		.kind = model->objects[location->object].kind,
		.has_name = frame->function,
	};
	struct xp_model_frame new = { .line = frame->line };
	int err;

	if (!function.name)
		function.name = function.symbol = place_name(model, location);
	if (!function.name || XP_ARRAY_RESERVE(model->frames, model->frame_room, model->frame_count + 1))
		return -ENOMEM;
	err = xp_model_function(model, &function, &new.function);
	if (!err)
		model->frames[model->frame_count++] = new;
	return err;
}

static int name_location(struct xp_model *model, size_t index, uint32_t place, const struct xp_model_jit_names *jit)
{
	const struct xp_model_location location = model->locations[index];
	struct xp_source_frame one = { 0 };
	const struct xp_source_frame *frames = &one;
	uint32_t count = 1;
	int err = 0;

	if (jit && location.jit != XP_MODEL_NONE) {
		err = jit->name(jit->arg, model, &location, &one);
	} else if (place != XP_MODEL_NONE) {
		const struct xp_place *known = xp_symbolizer_place(model->symbolizer, place);

		if (known->frame_count) {
			frames = known->frames;
			count = known->frame_count;
		}
		/* Sleds are those of whole functions: ignore calls that are inlined at the start of a function. */
		if (model->kind == XP_MODEL_CALLS) {
			frames += count - 1;
			count = 1;
		}
	}
	model->locations[index].first_frame = (uint32_t)model->frame_count;
	model->locations[index].frame_count = count;
	for (uint32_t i = 0; !err && i < count; i++)
		err = add_frame(model, &location, &frames[i]);
	return err;
}

int xp_model_name(struct xp_model *model, const struct xp_model_jit_names *jit)
{
	uint32_t *places = calloc(XP_MAX(model->location_count, (size_t)1), sizeof(*places));
	int err = places ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < model->location_count; i++)
		err = want_name(model, i, &places[i]);
	if (!err)
		err = xp_symbolizer_run(model->symbolizer);
	for (size_t i = 0; !err && i < model->location_count; i++)
		err = name_location(model, i, places[i], jit);
	free(places);
	return err;
}

int xp_model_location_named(struct xp_model *model, const char *name, enum xp_code_kind kind, uint32_t *location)
{
	const char *text = xp_model_text(model, name);
	struct xp_model_function function = { .name = text, .symbol = text, .kind = kind, .has_name = true };
	struct xp_model_frame frame = { 0 };
	int err = text ? xp_model_object_named(model, text, text, kind, &function.object) : -ENOMEM;

	if (!err)
		err = xp_model_function(model, &function, &frame.function);
	if (!err)
		err = xp_model_location(model, function.object, 0, XP_MODEL_NONE, location);
	if (!err && model->locations[*location].frame_count)
		return 0;
	if (!err && XP_ARRAY_RESERVE(model->frames, model->frame_room, model->frame_count + 1))
		err = -ENOMEM;
	if (err)
		return err;
	model->locations[*location].first_frame = (uint32_t)model->frame_count;
	model->locations[*location].frame_count = 1;
	model->frames[model->frame_count++] = frame;
	return 0;
}
