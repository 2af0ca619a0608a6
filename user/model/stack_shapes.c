// SPDX-License-Identifier: BSD-2-Clause
#include "model/stack_shapes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"

/* The shape of a stack includes the shape of its callers, which have a lower index. Each name has only one address. */
int xp_stack_shapes(const struct xp_model *model, uint64_t **shapes)
{
	uint64_t *kernel = calloc(model->stack_count, sizeof(*kernel));
	uint64_t *all = calloc(model->stack_count, sizeof(*all));

	*shapes = all;
	if (!kernel || !all) {
		free(kernel);
		return -ENOMEM;
	}
	for (size_t s = 1; s < model->stack_count; s++) {
		const struct xp_model_location *location = &model->locations[model->stacks[s].location];
		bool of_kernel = model->objects[location->object].kind == XP_CODE_KERNEL;
		uint64_t *shape = of_kernel ? &kernel[s] : &all[s];

		kernel[s] = kernel[model->stacks[s].callers];
		all[s] = all[model->stacks[s].callers];
		for (uint32_t i = location->frame_count; i--;)
			*shape = xp_hash_mix(
			    *shape,
			    (uintptr_t)model->functions[model->frames[location->first_frame + i].function].shown);
	}
	for (size_t s = 1; s < model->stack_count; s++)
		if (!all[s])
			all[s] = kernel[s];
	free(kernel);
	return 0;
}

static size_t frames_of(const struct xp_model *model, uint32_t stack, bool of_kernel, const char **names, size_t max)
{
	size_t count = 0;

	for (uint32_t s = stack; s; s = model->stacks[s].callers) {
		const struct xp_model_location *location = &model->locations[model->stacks[s].location];

		if ((model->objects[location->object].kind == XP_CODE_KERNEL) != of_kernel)
			continue;
		for (uint32_t i = 0; i < location->frame_count; i++, count++)
			if (count < max)
				names[count] =
				    model->functions[model->frames[location->first_frame + i].function].shown;
	}
	return count;
}

size_t xp_stack_frames(const struct xp_model *model, uint32_t stack, const char **names, size_t max)
{
	size_t count = frames_of(model, stack, false, names, max);

	return count ? count : frames_of(model, stack, true, names, max);
}
