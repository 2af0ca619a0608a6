// SPDX-License-Identifier: BSD-2-Clause
#include "sample/jit_samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define END_GONE_NS 100000000ull /* bound on reading the data that a gone process left */

struct xp_jit_sample {
	struct xp_jit_sample *next;
	struct xp_image *image;
	struct xp_address_space *space; /* shared: the frames point to its mappings */
	uint64_t tsc;
	uint64_t wait_ns;
	size_t count;
	struct xp_frame frames[];
};

static size_t sample_bytes(size_t count)
{
	return sizeof(struct xp_jit_sample) + count * sizeof(struct xp_frame);
}

/* ---- naming ---- */

/* Returns 0, or -EAGAIN if a frame may become known later. */
static int name_frames(struct xp_jit *jit, uint64_t tsc, struct xp_frame *frames, size_t count)
{
	int ret = 0;

	for (size_t i = 0; i < count; i++)
		if (frames[i].vma && xp_file_may_be_jit(frames[i].vma->file) &&
		    xp_jit_name(jit, &frames[i], i && !frames[i].interrupted, tsc) == -EAGAIN)
			ret = -EAGAIN;
	return ret;
}

/* Finds the user code that the sample hit, or that called the kernel, and counts the sample as named or unnamed. */
static void count_sample(const struct xp_jit_samples *jits, struct xp_image *image, const struct xp_frame *frames,
			 size_t count)
{
	if (jits->wait_ns)
		return;
	for (size_t i = 0; i < count; i++) {
		const struct xp_vma *vma = frames[i].vma;

		if (!vma && frames[i].address >= XP_PROFILE_KERNEL_START)
			continue;
		image->jit_named += vma && vma->file->kind == XP_FILE_JIT;
		image->jit_unnamed += vma && xp_file_may_be_jit(vma->file);
		return;
	}
}

/*
 * Returns false if the time budget is used up. The samples then wait; those that have waited longest come first next
 * time.
 */
static bool may_look(struct xp_jit_samples *jits)
{
	return xp_rate_limit_is_left(&jits->jits.looking, xp_now_ns());
}

static int need_jit(struct xp_jit_samples *jits, struct xp_image *image, struct xp_address_space *space)
{
	int err;

	/* A sample that has waited has an older address space. */
	if (!image->jit_space || image->jit_space->changed < space->changed) {
		xp_address_space_release(image->jit_space);
		image->jit_space = xp_address_space_share(space);
	}
	if (image->jit)
		return 0;
	err = xp_jit_new(&image->jit, &jits->jits, image->pid, image->number);
	if (err || !may_look(jits))
		return err;
	/* At once: the sources may soon be gone. */
	return XP_MIN(xp_jit_refresh(image->jit, space, xp_clock_now_tsc()), 0);
}

static int add(struct xp_jit_samples *jits, struct xp_image *image, struct xp_address_space *space, uint64_t tsc,
	       const struct xp_frame *frames, size_t count)
{
	struct xp_jit_sample *sample;

	if (jits->bytes + sample_bytes(count) > XP_JIT_SAMPLES_BYTES_MAX)
		return -ENOSPC;
	sample = malloc(sample_bytes(count));
	if (!sample)
		return -ENOMEM;
	*sample = (struct xp_jit_sample){ NULL, image, xp_address_space_share(space), tsc, jits->wait_ns, count };
	memcpy(sample->frames, frames, count * sizeof(*frames));
	*(jits->last ? &jits->last->next : &jits->first) = sample;
	jits->last = sample;
	jits->bytes += sample_bytes(count);
	image->jit_waiting++;
	return 0;
}

int xp_jit_samples_seen(struct xp_jit_samples *jits, struct xp_image *image, struct xp_address_space *space,
			const struct xp_vma *leaf)
{
	return jits->jits.clock && xp_file_may_be_jit(leaf->file) ? need_jit(jits, image, space) : 0;
}

bool xp_jit_samples_concern(const struct xp_jit_samples *jits, const struct xp_frame *frames, size_t count)
{
	const struct xp_vma *last = NULL;

	for (size_t i = 0; i < count && jits->jits.clock; i++) {
		const struct xp_vma *vma = frames[i].vma;

		if (vma && vma != last && xp_file_may_be_jit(vma->file))
			return true;
		last = vma;
	}
	return false;
}

int xp_jit_samples_find_rule(struct xp_jit_samples *jits, struct xp_image *image, struct xp_address_space *space,
			     uint64_t tsc, uint64_t address, struct xp_cfi_found *found)
{
	if (!jits->jits.clock || need_jit(jits, image, space))
		return -ENOENT;
	return xp_jit_find_rule(image->jit, address, tsc, found);
}

int xp_jit_samples_name(struct xp_jit_samples *jits, struct xp_image *image, struct xp_address_space *space,
			uint64_t tsc, struct xp_frame *frames, size_t count)
{
	int err = need_jit(jits, image, space);

	if (err)
		return err;
	if (name_frames(image->jit, tsc, frames, count) == -EAGAIN) {
		err = add(jits, image, space, tsc, frames, count);
		if (err != -ENOSPC)
			return err ? err : 1;
	}
	count_sample(jits, image, frames, count);
	return 0;
}

/* ---- waiting samples ---- */

static void drop(struct xp_jit_samples *jits, struct xp_jit_sample *sample)
{
	jits->bytes -= sample_bytes(sample->count);
	sample->image->jit_waiting--;
	xp_address_space_release(sample->space);
	free(sample);
}

/* Delivers the samples that can be named, and all that are older than oldest_tsc. */
static int deliver_named(struct xp_jit_samples *jits, uint64_t oldest_tsc, xp_jit_deliver *deliver, void *arg)
{
	struct xp_jit_sample **link = &jits->first, *sample;
	int first = 0;

	jits->last = NULL;
	while ((sample = *link)) {
		if (name_frames(sample->image->jit, sample->tsc, sample->frames, sample->count) == -EAGAIN &&
		    sample->tsc >= oldest_tsc) {
			jits->last = sample;
			link = &sample->next;
			continue;
		}
		jits->wait_ns = sample->wait_ns;
		count_sample(jits, sample->image, sample->frames, sample->count);
		first = first ?: deliver(arg, sample->image, sample->frames, sample->count);
		*link = sample->next;
		drop(jits, sample);
	}
	return first;
}

/* The address space of an image, as of its newest sample. */
static const struct xp_address_space *space_of(const struct xp_image *image)
{
	if (image->is_over)
		xp_jit_over(image->jit);
	return image->jit_space;
}

int xp_jit_samples_look(struct xp_jit_samples *jits, struct xp_image *image, uint64_t now_tsc)
{
	if (image->jit_looked_tsc == now_tsc || !may_look(jits))
		return 0;
	image->jit_looked_tsc = now_tsc;
	return XP_MIN(xp_jit_refresh(image->jit, space_of(image), now_tsc), 0);
}

int xp_jit_samples_refresh(struct xp_jit_samples *jits, xp_jit_deliver *deliver, void *arg)
{
	uint64_t now_tsc = xp_clock_now_tsc(), wait_ticks;
	int first = 0;

	if (!jits->first)
		return 0;
	wait_ticks = xp_clock_ticks(jits->jits.clock, XP_JIT_SAMPLES_WAIT_NS);
	for (struct xp_jit_sample *sample = jits->first; sample; sample = sample->next)
		first = xp_jit_samples_look(jits, sample->image, now_tsc) ?: first;
	return first ?: deliver_named(jits, now_tsc - XP_MIN(now_tsc, wait_ticks), deliver, arg);
}

void xp_jit_samples_end_gone(struct xp_jit_samples *jits, struct xp_image *const *images, size_t image_count)
{
	uint64_t now_tsc = xp_clock_now_tsc();

	for (size_t i = 0; i < image_count && may_look(jits); i++) {
		struct xp_image *image = images[i];

		if (!image->jit || image->jit_waiting || xp_jit_is_finished(image->jit) ||
		    (!image->is_over && !xp_jit_is_gone(image->jit)))
			continue;
		/* An error is reported again at the end. */
		xp_jit_over(image->jit);
		xp_jit_finish(image->jit, image->jit_space, now_tsc, xp_now_ns() + END_GONE_NS);
		xp_address_space_release(image->jit_space);
		image->jit_space = NULL;
	}
}

int xp_jit_samples_finish(struct xp_jit_samples *jits, struct xp_image *const *images, size_t image_count,
			  xp_jit_deliver *deliver, void *arg)
{
	uint64_t now_tsc = xp_clock_now_tsc(), end_ns = xp_now_ns() + XP_JIT_SAMPLES_FINISH_NS;
	int first = 0;

	for (size_t i = 0; i < image_count; i++)
		if (images[i]->jit)
			first = xp_jit_finish(images[i]->jit, space_of(images[i]), now_tsc, end_ns) ?: first;
	return deliver_named(jits, UINT64_MAX, deliver, arg) ?: first;
}

void xp_jit_samples_free(struct xp_jit_samples *jits)
{
	struct xp_jit_sample *sample;

	while ((sample = jits->first)) {
		jits->first = sample->next;
		drop(jits, sample);
	}
	jits->last = NULL;
	xp_jits_free(&jits->jits);
}
