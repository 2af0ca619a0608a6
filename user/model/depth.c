// SPDX-License-Identifier: BSD-2-Clause
#include "model/depth.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "model/location_names.h"

struct cutting {
	struct xp_model *model;
	struct xp_model_cut *cut;
	uint32_t *depths;  /* functions of each stack, including inlined ones */
	uint32_t *kept;	   /* outermost part of each stack */
	uint32_t location; /* "[deeper]" */
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

/* If only the innermost location exceeds the limit, nothing is omitted between it and the kept part. */
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

/* Joins equal calls in a row that have no time, even if the model does not add up samples. */
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

/* Adds up samples whose stacks have become equal. */
static int cut_samples(struct cutting *cutting)
{
	struct xp_model *model = cutting->model;
	size_t count;
	struct xp_model_sample *samples = xp_model_take_samples(model, &count);
	int err = xp_model_location_named(model, XP_MODEL_DEEPER, XP_CODE_UNKNOWN, &cutting->location);

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
	/* The cut stacks may exceed the limit of a full model; do not drop samples for that. */
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
