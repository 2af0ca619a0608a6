/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the bytes of JIT code from the memory of the process. The number of bytes is limited, because the process
 * decides how much code it has. Compilers place functions one after another, so a read also fetches the bytes after the
 * function.
 */
#ifndef XPROF_JIT_CODE_BYTES_H
#define XPROF_JIT_CODE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/memory.h"

/* Larger functions are recorded without their bytes. */
#define XP_JIT_BYTES_MAX (1u << 20)

/* If all members except memory and pid are zero, xp_jit_bytes_read() reads nothing. */
struct xp_jit_bytes {
	struct xp_target_memory *memory; /* reads the process; NULL: as in xp_target_memory_read() */
	pid_t pid;
	uint64_t left;	 /* bytes of functions that may still be read */
	uint8_t *buffer; /* [XP_JIT_BYTES_MAX], from the first use */
	uint64_t start;	 /* address of the bytes in buffer */
	size_t size;
	uint64_t last; /* end of the last function */
};

/* Starts a pass in which at most left bytes may be read. Discards buffered bytes, because they may be out of date. */
void xp_jit_bytes_begin(struct xp_jit_bytes *bytes, uint64_t left);
/*
 * Returns the bytes of a function, valid until the next call. Returns NULL if the bytes are unreadable or exceed a
 * limit, or if `bytes` is NULL.
 */
const uint8_t *xp_jit_bytes_read(struct xp_jit_bytes *bytes, uint64_t start, uint64_t size);
void xp_jit_bytes_free(struct xp_jit_bytes *bytes);

#endif
