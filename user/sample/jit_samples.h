/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connects samples with the JIT code (jit.h) that they hit. Decides when the sources of an image are polled, and
 * unwinds stacks from JIT code. xprof writes the names of the code to jitdumps.
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
 * Call this when a sample without known frames hits this mapping. Looks for sources of JIT code in the mapping. Returns
 * 0 or -ENOMEM.
 */
int xp_jit_samples_seen(struct xp_jits *jits, struct xp_image *image, struct xp_address_space *space,
			const struct xp_vma *leaf);
/*
 * Call this when a frame of a sample is in code without a file. address: of the call, not the return address. Looks for
 * sources of JIT code. Returns 0 or -ENOMEM.
 */
int xp_jit_samples_hit(struct xp_jits *jits, struct xp_image *image, struct xp_address_space *space, uint64_t tsc,
		       uint64_t address);
/*
 * Finds the unwind rule for JIT code at this address, at the time of the sample. At the first sample in JIT code of a
 * process, looks for sources of JIT code. Returns the value of xp_jit_find_rule().
 */
int xp_jit_samples_find_rule(struct xp_jits *jits, struct xp_image *image, struct xp_address_space *space, uint64_t tsc,
			     uint64_t address, struct xp_cfi_found *found);
/* Polls the sources of a process if polling time is left. now_tsc: use the same value for all processes of a pass. */
int xp_jit_samples_look(struct xp_jits *jits, struct xp_image *image, uint64_t now_tsc);

/*
 * Polls the sources of all images in which samples hit unknown code. Call this every second. Returns the first error.
 */
int xp_jit_samples_refresh(struct xp_jits *jits, struct xp_image *const *images, size_t image_count);
/*
 * Completes the jitdumps of processes that have exited, and closes their open files. Call this after
 * xp_jit_samples_refresh().
 */
void xp_jit_samples_end_gone(struct xp_jits *jits, struct xp_image *const *images, size_t image_count);
/* Polls all sources a last time and completes the jitdumps. Call this at the end. Returns the first error. */
int xp_jit_samples_finish(struct xp_image *const *images, size_t image_count);

#endif
