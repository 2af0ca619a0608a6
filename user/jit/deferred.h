/* SPDX-License-Identifier: BSD-2-Clause */
/* A load (jit/code.h) that the observer receives later, with a copy of what it points to. */
#ifndef XPROF_JIT_DEFERRED_H
#define XPROF_JIT_DEFERRED_H

#include <stddef.h>
#include <stdint.h>

#include "jit/code.h"

struct xp_jit_deferred {
	struct xp_jit_deferred *next;
	uint32_t index;
	size_t bytes;		 /* memory that it takes */
	struct xp_jit_load load; /* without the name */
};

/* The memory that a copy of the load takes. */
size_t xp_jit_deferred_bytes(const struct xp_jit_load *load);
/* One allocation, for free(). Returns NULL if out of memory. */
struct xp_jit_deferred *xp_jit_deferred_new(uint32_t index, const struct xp_jit_load *load);

#endif
