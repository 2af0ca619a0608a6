/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * .eh_frame of JIT code, taken from where the runtime has it and laid out anew for a single function, as jitdumps have
 * it. Pure; the bytes are a copy of the target's, who may have written anything: it is read inside its bounds, once.
 *
 * Source of the format: "Linux Standard Base Core Specification", 10.6 Exception Frames. Of what it allows, the rows of
 * unwinding survive; personality routines and their data do not.
 */
#ifndef XPROF_JIT_EH_FRAME_H
#define XPROF_JIT_EH_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_JIT_EH_FRAMES_MAX 65536	/* entries of one section */
#define XP_JIT_EH_FRAME_BYTES_MAX 65536 /* of one function, laid out */

struct xp_jit_fde;

struct xp_jit_eh_frames {
	struct xp_jit_fde *fdes; /* in order of address */
	size_t count;
};

/*
 * bytes: a section that lies at this address in the process; they must live as long as the result. What is malformed
 * ends the reading, what is of an unknown kind is left out. -ENOMEM. The caller frees.
 */
int xp_jit_eh_frames_read(struct xp_jit_eh_frames *frames, const uint8_t *bytes, size_t size, uint64_t address);
void xp_jit_eh_frames_free(struct xp_jit_eh_frames *frames);

struct xp_jit_eh_frame {
	uint8_t *frame;
	size_t frame_bytes;
	uint8_t *header;
	size_t header_bytes;
};

/*
 * Of the function [start, start + size): .eh_frame at start + size rounded up to 8 and its header directly behind it,
 * as perf wants them; header_first: the other way round, as the text of jitdump has it. -ENOENT there is nothing for
 * it; -E2BIG; -ENOMEM. The caller frees.
 */
int xp_jit_eh_frame_make(struct xp_jit_eh_frame *made, const struct xp_jit_eh_frames *frames, uint64_t start,
			 uint64_t size, bool header_first);
void xp_jit_eh_frame_free(struct xp_jit_eh_frame *made);

#endif
