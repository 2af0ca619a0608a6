// SPDX-License-Identifier: BSD-2-Clause
#include "sample/jit_samples.h"

#include <errno.h>

#include "base/util.h"

#define END_GONE_NS 100000000ull /* maximum time for reading the remaining data of a process that has exited */

/* Returns false if the time budget is used up. */
static bool may_look(struct xp_jits *jits)
{
	return xp_rate_limit_is_left(&jits->looking, xp_now_ns());
}

static int need_jit(struct xp_jits *jits, struct xp_image *image, struct xp_address_space *space)
{
	int err;

	/* The address space of a sample that had to wait is older. */
	if (!image->jit_space || image->jit_space->changed < space->changed) {
		xp_address_space_release(image->jit_space);
		image->jit_space = xp_address_space_share(space);
	}
	if (image->jit)
		return 0;
	err = xp_jit_new(&image->jit, jits, image->pid, image->number);
	if (err || !may_look(jits))
		return err;
	/* Poll immediately: the sources may disappear soon. */
	return XP_MIN(xp_jit_refresh(image->jit, space, xp_clock_now_tsc()), 0);
}

int xp_jit_samples_seen(struct xp_jits *jits, struct xp_image *image, struct xp_address_space *space,
			const struct xp_vma *leaf)
{
	return jits->clock && xp_file_may_be_jit(leaf->file) ? need_jit(jits, image, space) : 0;
}

int xp_jit_samples_hit(struct xp_jits *jits, struct xp_image *image, struct xp_address_space *space, uint64_t tsc,
		       uint64_t address)
{
	int err = jits->clock ? need_jit(jits, image, space) : 0;

	if (!err && image->jit)
		xp_jit_hit(image->jit, address, tsc);
	return err;
}

int xp_jit_samples_find_rule(struct xp_jits *jits, struct xp_image *image, struct xp_address_space *space, uint64_t tsc,
			     uint64_t address, struct xp_cfi_found *found)
{
	if (!jits->clock || need_jit(jits, image, space))
		return -ENOENT;
	return xp_jit_find_rule(image->jit, address, tsc, found);
}

/* Returns the address space of an image at the time of its newest sample. */
static const struct xp_address_space *space_of(const struct xp_image *image)
{
	if (image->is_over)
		xp_jit_over(image->jit);
	return image->jit_space;
}

int xp_jit_samples_look(struct xp_jits *jits, struct xp_image *image, uint64_t now_tsc)
{
	if (image->jit_looked_tsc == now_tsc || !may_look(jits))
		return 0;
	image->jit_looked_tsc = now_tsc;
	return XP_MIN(xp_jit_refresh(image->jit, space_of(image), now_tsc), 0);
}

int xp_jit_samples_refresh(struct xp_jits *jits, struct xp_image *const *images, size_t image_count)
{
	uint64_t now_tsc = xp_clock_now_tsc();
	int first = 0;

	for (size_t i = 0; i < image_count; i++)
		if (images[i]->jit && xp_jit_has_unknown(images[i]->jit))
			first = xp_jit_samples_look(jits, images[i], now_tsc) ?: first;
	return first;
}

void xp_jit_samples_end_gone(struct xp_jits *jits, struct xp_image *const *images, size_t image_count)
{
	uint64_t now_tsc = xp_clock_now_tsc();

	for (size_t i = 0; i < image_count && may_look(jits); i++) {
		struct xp_image *image = images[i];

		if (!image->jit || xp_jit_is_finished(image->jit) || (!image->is_over && !xp_jit_is_gone(image->jit)))
			continue;
		/* Ignore an error here: xp_jit_finish() returns it again at the end. */
		xp_jit_over(image->jit);
		xp_jit_finish(image->jit, image->jit_space, now_tsc, xp_now_ns() + END_GONE_NS);
		xp_address_space_release(image->jit_space);
		image->jit_space = NULL;
	}
}

int xp_jit_samples_finish(struct xp_image *const *images, size_t image_count)
{
	uint64_t now_tsc = xp_clock_now_tsc(), end_ns = xp_now_ns() + XP_JIT_SAMPLES_FINISH_NS;
	int first = 0;

	for (size_t i = 0; i < image_count; i++)
		if (images[i]->jit)
			first = xp_jit_finish(images[i]->jit, space_of(images[i]), now_tsc, end_ns) ?: first;
	return first;
}
