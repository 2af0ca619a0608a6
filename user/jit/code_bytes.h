/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the bytes of JIT code from the memory of the process. The amount is bounded, because the process says how much
 * code there is. Compilers put one function after the other, so a read fetches what follows the function too.
 */
#ifndef XPROF_JIT_CODE_BYTES_H
#define XPROF_JIT_CODE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/memory.h"

/* Only the name of a larger function is recorded. */
#define XP_JIT_BYTES_MAX (1u << 20)

/* Zeroed except for memory and pid: nothing may be read. */
struct xp_jit_bytes {
	struct xp_target_memory *memory; /* to read with; NULL has the same meaning as there */
	pid_t pid;
	uint64_t left;	 /* bytes of functions that may still be read */
	uint8_t *buffer; /* [XP_JIT_BYTES_MAX], from the first use */
	uint64_t start;	 /* address of the bytes in buffer */
	size_t size;
	uint64_t last; /* end of the last function */
};

/* Starts a round in which at most left bytes may be read. Discards earlier bytes, which may be out of date. */
void xp_jit_bytes_begin(struct xp_jit_bytes *bytes, uint64_t left);
/*
 * Valid until the next call. Returns NULL if the bytes are unreadable or too many, or if bytes is NULL (the caller
 * needs none).
 */
const uint8_t *xp_jit_bytes_read(struct xp_jit_bytes *bytes, uint64_t start, uint64_t size);
void xp_jit_bytes_free(struct xp_jit_bytes *bytes);

#endif
