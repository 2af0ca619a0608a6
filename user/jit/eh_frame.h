/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The .eh_frame of JIT code. Reads the section and converts its entries to rows for the unwinder. The bytes are an
 * untrusted copy of target memory. This module makes no system calls.
 */
#ifndef XPROF_JIT_EH_FRAME_H
#define XPROF_JIT_EH_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi_fdes.h"
#include "unwind/cfi_rows.h"

/*
 * Reads a section whose address in the process is `address`. The bytes must outlive the entries. Stops at a malformed
 * length, and skips entries of an unknown kind. The caller frees *fdes with xp_cfi_fdes_free(), also after an error.
 * Returns 0 or -ENOMEM.
 */
int xp_jit_eh_frame_read(struct xp_cfi_fdes *fdes, const uint8_t *bytes, size_t size, uint64_t address);

/*
 * Makes the unwind rows of the function [start, start + size), by offset from start. Uses only the entries that lie
 * completely in the function. rows must be empty; the caller frees them. Returns 0 or -errno: -ENOENT if the section
 * has no entry for the function, -EFBIG if there are too many rows, -ENOMEM.
 */
int xp_jit_eh_frame_rows(struct xp_cfi_rows *rows, const struct xp_cfi_fdes *fdes, uint64_t start, uint64_t size);

#endif
