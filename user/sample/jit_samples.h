/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names the frames of samples in JIT code (jit.h). Such a sample may have hit code that is newer than the last look at
 * its process's sources. So the sample waits for the next look. Meanwhile its frames are kept here, in bounded memory.
 */
#ifndef XPROF_SAMPLE_JIT_SAMPLES_H
#define XPROF_SAMPLE_JIT_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jit/jit.h"
#include "profile/profile.h"
#include "sample/sampled_process.h"

/* How long a sample waits at most, and how much memory all waiting samples take at most. */
#define XP_JIT_SAMPLES_WAIT_NS 10000000000ull
#define XP_JIT_SAMPLES_BYTES_MAX (32u << 20)
/* How long xprof looks at all sources when the recording ends, at most. */
#define XP_JIT_SAMPLES_FINISH_NS 20000000000ull

struct xp_jit_samples {
	struct xp_jits jits; /* the caller fills in the caller's part; without a clock no frame is named */

	/*
	 * Time that the sample stands for which is being named (set by the caller), or delivered: a wait; 0: any other
	 * sample.
	 */
	uint64_t wait_ns;

	/* private */
	struct xp_jit_sample *first; /* the oldest */
	struct xp_jit_sample *last;
	size_t bytes;
};

/* Passes a sample on to its profile. */
typedef int xp_jit_deliver(void *arg, struct xp_image *image, const struct xp_frame *frames, size_t count);

/*
 * A sample whose frames are not known yet hit this mapping: looks for sources of JIT code there. Returns 0 or -ENOMEM.
 */
int xp_jit_samples_seen(struct xp_jit_samples *jits, struct xp_image *image, struct xp_address_space *space,
			const struct xp_vma *leaf);

/* Whether any of the frames may be in JIT code. */
bool xp_jit_samples_concern(const struct xp_jit_samples *jits, const struct xp_frame *frames, size_t count);
/*
 * Finds how to unwind from JIT code at this address, as of the sample's time. Looks for sources of JIT code if there
 * was no sample in that process's JIT code before. Returns as xp_jit_find_rule() does.
 */
int xp_jit_samples_find_rule(struct xp_jit_samples *jits, struct xp_image *image, struct xp_address_space *space,
			     uint64_t tsc, uint64_t address, struct xp_cfi_found *found);
/* Looks at the sources of a process, if the time for that is not used up. now_tsc: the same for all calls of a round.
 */
int xp_jit_samples_look(struct xp_jit_samples *jits, struct xp_image *image, uint64_t now_tsc);
/*
 * Names the frames (leaf first) of a sample in JIT code. Returns 0 if the frames are final, and counts the sample; 1 if
 * it has to wait, and copies the frames; or -ENOMEM.
 */
int xp_jit_samples_name(struct xp_jit_samples *jits, struct xp_image *image, struct xp_address_space *space,
			uint64_t tsc, struct xp_frame *frames, size_t count);

/*
 * Looks at the sources of the processes with waiting samples, and delivers the samples that need not wait any longer.
 * Call it every second. Returns the first error.
 */
int xp_jit_samples_refresh(struct xp_jit_samples *jits, xp_jit_deliver *deliver, void *arg);
/*
 * Ends the jitdumps of processes that have ended and whose samples are all delivered, and closes their open files. Call
 * it after xp_jit_samples_refresh().
 */
void xp_jit_samples_end_gone(struct xp_jit_samples *jits, struct xp_image *const *images, size_t image_count);
/* At the end: looks at all sources a last time, delivers all samples and ends the jitdumps. Returns the first error. */
int xp_jit_samples_finish(struct xp_jit_samples *jits, struct xp_image *const *images, size_t image_count,
			  xp_jit_deliver *deliver, void *arg);

void xp_jit_samples_free(struct xp_jit_samples *jits);

#endif
