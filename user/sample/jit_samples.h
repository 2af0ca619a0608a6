/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The JIT code (jit.h) that samples hit: when the sources of an image are polled, and how stacks are unwound from its
 * code. Its names are written to jitdumps, for readers.
 */
#ifndef XPROF_SAMPLE_JIT_SAMPLES_H
#define XPROF_SAMPLE_JIT_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jit/jit.h"
#include "sample/sampled_process.h"

/* The maximum time of the last poll of all sources, when the recording ends. */
#define XP_JIT_SAMPLES_FINISH_NS 20000000000ull

/*
 * A sample whose frames are not known yet hit this mapping: looks for sources of JIT code there. Returns 0 or -ENOMEM.
 */
int xp_jit_samples_seen(struct xp_jits *jits, struct xp_image *image, struct xp_address_space *space,
			const struct xp_vma *leaf);
/* A frame of a sample is at this address (of the call, not the return address), in code without a file. Likewise. */
int xp_jit_samples_hit(struct xp_jits *jits, struct xp_image *image, struct xp_address_space *space, uint64_t tsc,
		       uint64_t address);
/*
 * Finds how to unwind from JIT code at this address, as of the sample's time. Looks for sources of JIT code if there
 * was no sample in that process's JIT code before. Returns as xp_jit_find_rule() does.
 */
int xp_jit_samples_find_rule(struct xp_jits *jits, struct xp_image *image, struct xp_address_space *space, uint64_t tsc,
			     uint64_t address, struct xp_cfi_found *found);
/* Polls the sources of a process if polling time is left. now_tsc: pass the same value for all processes of a pass. */
int xp_jit_samples_look(struct xp_jits *jits, struct xp_image *image, uint64_t now_tsc);

/*
 * Looks at the sources of the images that were hit in code which is not known. Call it every second. Returns the first
 * error.
 */
int xp_jit_samples_refresh(struct xp_jits *jits, struct xp_image *const *images, size_t image_count);
/* Ends the jitdumps of processes that have ended, and closes their open files. Call it after xp_jit_samples_refresh().
 */
void xp_jit_samples_end_gone(struct xp_jits *jits, struct xp_image *const *images, size_t image_count);
/* At the end: looks at all sources a last time and ends the jitdumps. Returns the first error. */
int xp_jit_samples_finish(struct xp_image *const *images, size_t image_count);

#endif
