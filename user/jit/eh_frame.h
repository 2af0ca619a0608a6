/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The .eh_frame of JIT code: reads it at its address in the process, rebuilds it for a single function as in jitdumps,
 * and converts it to rows for the unwinder. Pure. The bytes are an untrusted copy; each is read once, within bounds.
 *
 * Source of the format: "Linux Standard Base Core Specification", 10.6 Exception Frames. The unwinding rows are kept;
 * personality routines and their data are dropped.
 */
#ifndef XPROF_JIT_EH_FRAME_H
#define XPROF_JIT_EH_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi_rows.h"

#define XP_JIT_EH_FRAMES_MAX 65536	/* entries of one section */
#define XP_JIT_EH_FRAME_BYTES_MAX 65536 /* rebuilt data of one function */

struct xp_jit_fde;

struct xp_jit_eh_frames {
	struct xp_jit_fde *fdes; /* in address order */
	size_t count;
};

/*
 * Reads a section. bytes: the section at this address in the process; they must live as long as the result. Stops at a
 * malformed entry, and skips entries of an unknown kind. The caller frees the result. Returns 0 or -ENOMEM.
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
 * Makes the data of the function [start, start + size): .eh_frame at start + size rounded up to 8, and its header
 * directly after it, as perf expects. The caller frees. Returns 0 or -errno: -ENOENT if the section has nothing for the
 * function, -E2BIG, -ENOMEM.
 */
int xp_jit_eh_frame_make(struct xp_jit_eh_frame *made, const struct xp_jit_eh_frames *frames, uint64_t start,
			 uint64_t size);
void xp_jit_eh_frame_free(struct xp_jit_eh_frame *made);

/*
 * Makes the rows of the function [start, start + size), by the distance from start. The time depends on the size of its
 * entries. rows: empty; the caller frees them. Returns 0 or -errno: -ENOENT if the section has no entry for the
 * function, -EFBIG if there are too many rows, -ENOMEM.
 */
int xp_jit_eh_frame_rows(struct xp_cfi_rows *rows, const struct xp_jit_eh_frames *frames, uint64_t start,
			 uint64_t size);

#endif
