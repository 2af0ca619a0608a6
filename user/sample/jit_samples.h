/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Samples in JIT code: names their frames (jit.h). A sample waits until its process's sources have been looked at after
 * it, for it may have hit code that is younger than the last look; meanwhile its frames are kept here, within a bound.
 */
#ifndef XPROF_JIT_SAMPLES_H
#define XPROF_JIT_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jit/jit.h"
#include "profile/profile.h"
#include "sample/sampled_process.h"

/* So long a sample waits at most; and so much memory all take that wait. */
#define XP_JIT_SAMPLES_WAIT_NS 10000000000ull
#define XP_JIT_SAMPLES_BYTES_MAX (32u << 20)
/* So long all sources are looked at when the recording ends. */
#define XP_JIT_SAMPLES_FINISH_NS 20000000000ull

struct xp_jit_samples {
	struct xp_jits jits; /* the caller sets what it says; without a clock nothing is named */

	/* Not the caller's. */
	struct xp_jit_sample *first; /* the oldest */
	struct xp_jit_sample *last;
	size_t bytes;
};

/* A sample goes on its way. */
typedef int xp_jit_deliver(void *arg, struct xp_image *image, const struct xp_profile_frame *frames, size_t count);

/* A sample hit this mapping whose frames are not known yet: looks for what tells of JIT code there. -ENOMEM. */
int xp_jit_samples_seen(struct xp_jit_samples *jits, struct xp_image *image, struct xp_space *space,
			const struct xp_vma *leaf);

/* Whether any of the frames may be JIT code's. */
bool xp_jit_samples_concern(const struct xp_jit_samples *jits, const struct xp_profile_frame *frames, size_t count);
/*
 * Names the frames (leaf first) of a sample that they concern. 0: they are as they shall be, and are counted; 1: they
 * have to wait, and were copied; -ENOMEM.
 */
int xp_jit_samples_name(struct xp_jit_samples *jits, struct xp_image *image, struct xp_space *space, uint64_t tsc,
			struct xp_profile_frame *frames, size_t count);

/*
 * To be called every second: looks at the sources of the processes whose samples wait, and delivers what need not wait
 * any longer. The first error.
 */
int xp_jit_samples_refresh(struct xp_jit_samples *jits, xp_jit_deliver *deliver, void *arg);
/*
 * To be called behind it: ends the jitdumps of processes that are gone and whose samples are all delivered, and closes
 * what was open of them.
 */
void xp_jit_samples_end_gone(struct xp_jit_samples *jits, struct xp_image *const *images, size_t image_count);
/* At the end: looks at all sources a last time, delivers all, ends the jitdumps. The first error. */
int xp_jit_samples_finish(struct xp_jit_samples *jits, struct xp_image *const *images, size_t image_count,
			  xp_jit_deliver *deliver, void *arg);

void xp_jit_samples_free(struct xp_jit_samples *jits);

#endif
