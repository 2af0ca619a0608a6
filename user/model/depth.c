// SPDX-License-Identifier: BSD-2-Clause
#include "model/depth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "model/location_names.h"

struct cutting {
	struct xp_model *model;
	struct xp_model_cut *cut;
	uint32_t *depths;  /* of each stack: its functions, inlined ones included */
	uint32_t *kept;	   /* of each stack: the outermost part of it */
	uint32_t location; /* that stands for what is cut out */
};

static void count_depths(const struct cutting *cutting)
{
	const struct xp_model *model = cutting->model;

	/* Callers have lower indexes. */
	for (size_t i = 1; i < model->stack_count; i++)
		cutting->depths[i] =
		    cutting->depths[model->stacks[i].callers] + model->locations[model->stacks[i].location].frame_count;
}

static uint64_t written_frames(const struct cutting *cutting, uint32_t depth)
{
	uint64_t frames = 0;

	for (size_t i = 0; i < cutting->model->sample_count; i++)
		frames += XP_MIN(cutting->depths[cutting->model->samples[i].stack], depth);
	return frames;
}

static void choose_depth(const struct cutting *cutting)
{
	uint32_t depth = XP_MODEL_DEPTH_MAX;

	while (depth > XP_MODEL_DEPTH_MIN && written_frames(cutting, depth) > XP_MODEL_WRITTEN_MAX)
		depth /= 2;
	cutting->cut->depth = depth;
	for (size_t i = 0; i < cutting->model->stack_count; i++)
		cutting->kept[i] =
		    cutting->depths[i] <= depth ? (uint32_t)i : cutting->kept[cutting->model->stacks[i].callers];
}

/* Where nothing but the innermost location is beyond, there is nothing between it and what is kept. */
static bool is_cut(const struct cutting *cutting, uint32_t stack)
{
	return stack && cutting->depths[cutting->model->stacks[stack].callers] > cutting->cut->depth;
}

static int cut_stack(struct cutting *cutting, struct xp_model_sample *sample)
{
	const struct xp_model_stack whole = cutting->model->stacks[sample->stack];
	int err = xp_model_stack(cutting->model, cutting->kept[whole.callers], cutting->location, &sample->stack);

	if (!err)
		err = xp_model_stack(cutting->model, sample->stack, whole.location, &sample->stack);
	if (!err)
		cutting->cut->samples += sample->values[0];
	return err;
}

/* Calls have no time. Neighbours that have become equal are one, also where samples are not added up. */
static bool join(struct xp_model *model, const struct xp_model_sample *sample)
{
	struct xp_model_sample *last = model->sample_count ? &model->samples[model->sample_count - 1] : NULL;

	if (!last || model->kind != XP_MODEL_CALLS || last->stack != sample->stack || last->thread != sample->thread)
		return false;
	for (size_t i = 0; i < XP_ARRAY_SIZE(sample->values); i++)
		last->values[i] += sample->values[i];
	return true;
}

static int add_sample(struct cutting *cutting, struct xp_model_sample sample)
{
	struct xp_model *model = cutting->model;
	int err = is_cut(cutting, sample.stack) ? cut_stack(cutting, &sample) : 0;

	if (!err && !join(model, &sample))
		err = xp_model_sample(model, &sample);
	if (err != -E2BIG)
		return err;
	model->dropped += sample.values[0];
	return 0;
}

/* Stacks that are cut at one place become equal, and their samples are added up. */
static int cut_samples(struct cutting *cutting)
{
	struct xp_model *model = cutting->model;
	struct xp_model_sample *samples = model->samples;
	size_t count = model->sample_count;
	int err = xp_model_location_named(model, XP_MODEL_DEEPER, XP_CODE_UNKNOWN, &cutting->location);

	model->samples = NULL;
	model->sample_count = model->sample_room = 0;
	memset(model->totals, 0, sizeof(model->totals));
	xp_hash_free(&model->by_sample);
	for (size_t i = 0; !err && i < count; i++)
		err = add_sample(cutting, samples[i]);
	free(samples);
	return err;
}

static bool any_is_cut(const struct cutting *cutting)
{
	for (size_t i = 0; i < cutting->model->sample_count; i++)
		if (is_cut(cutting, cutting->model->samples[i].stack))
			return true;
	return false;
}

int xp_model_cut_depth(struct xp_model *model, struct xp_model_cut *cut)
{
	struct cutting cutting = {
		.model = model,
		.cut = cut,
		.depths = calloc(model->stack_count, sizeof(*cutting.depths)),
		.kept = calloc(model->stack_count, sizeof(*cutting.kept)),
	};
	int err = cutting.depths && cutting.kept ? 0 : -ENOMEM;

	*cut = (struct xp_model_cut){ 0 };
	/* A model that is full takes two more for each sample: otherwise samples that it has would be missing. */
	model->stack_max = XP_MODEL_STACKS_MAX;
	if (!err) {
		count_depths(&cutting);
		choose_depth(&cutting);
		if (any_is_cut(&cutting))
			err = cut_samples(&cutting);
	}
	free(cutting.depths);
	free(cutting.kept);
	return err == -E2BIG ? -ENOMEM : err;
}
