/* SPDX-License-Identifier: BSD-2-Clause */
/* A load (jit_code.h) of which the observer hears later: what it points to is kept until then. */
#ifndef XPROF_JIT_LATE_H
#define XPROF_JIT_LATE_H

#include <stddef.h>
#include <stdint.h>

#include "jit/code.h"

struct xp_jit_late {
	struct xp_jit_late *next;
	uint32_t index;
	size_t bytes;		 /* that it takes in memory */
	struct xp_jit_load load; /* without the name */
};

/* What a copy of the load takes in memory. */
size_t xp_jit_late_bytes(const struct xp_jit_load *load);
/* In one piece, for free(). NULL: out of memory. */
struct xp_jit_late *xp_jit_late_new(uint32_t index, const struct xp_jit_load *load);

#endif
