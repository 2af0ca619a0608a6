/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The .eh_frame of JIT code: reads it at its address in the process, and converts the entries of a function to rows for
 * the unwinder. Pure. The bytes are an untrusted copy.
 */
#ifndef XPROF_JIT_EH_FRAME_H
#define XPROF_JIT_EH_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi_fdes.h"
#include "unwind/cfi_rows.h"

/*
 * Reads a section that is at this address in the process. The bytes must live as long as the entries. Stops at a
 * malformed length, and skips entries of an unknown kind. The caller frees *fdes with xp_cfi_fdes_free(), also after an
 * error. Returns 0 or -ENOMEM.
 */
int xp_jit_eh_frame_read(struct xp_cfi_fdes *fdes, const uint8_t *bytes, size_t size, uint64_t address);

/*
 * Makes the rows of the function [start, start + size), by the distance from start. Uses only the entries that lie
 * completely in the function; the time depends on their size. rows: empty; the caller frees them. Returns 0 or -errno:
 * -ENOENT if the section has no entry for the function, -EFBIG if there are too many rows, -ENOMEM.
 */
int xp_jit_eh_frame_rows(struct xp_cfi_rows *rows, const struct xp_cfi_fdes *fdes, uint64_t start, uint64_t size);

#endif
