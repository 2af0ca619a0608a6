/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes of JIT code, from the memory of the process: bounded, for the process says how much there is of it.
 * Compilers put one function behind the other, so what follows one that is read is read with it.
 */
#ifndef XPROF_JIT_BYTES_H
#define XPROF_JIT_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/memory.h"

/* Of a larger function only the name is taken. */
#define XP_JIT_BYTES_MAX (1u << 20)

/* Zeroed but for memory and pid: nothing may be read. */
struct xp_jit_bytes {
	struct xp_target_memory *memory; /* to read with; NULL as there */
	pid_t pid;
	uint64_t left;	 /* of functions, may still be read */
	uint8_t *buffer; /* [XP_JIT_BYTES_MAX], from the first use on */
	uint64_t start;	 /* of what is in it */
	size_t size;
	uint64_t last; /* end of the last function */
};

/* From now on so much may be read; what was read before may be out of date. */
void xp_jit_bytes_begin(struct xp_jit_bytes *bytes, uint64_t left);
/* Valid until the next call. NULL: not readable, too much, or bytes is NULL (nobody wants them). */
const uint8_t *xp_jit_bytes_read(struct xp_jit_bytes *bytes, uint64_t start, uint64_t size);
void xp_jit_bytes_free(struct xp_jit_bytes *bytes);

#endif
