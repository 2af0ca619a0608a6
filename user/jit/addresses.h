/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses of JIT functions in a profile. Each sampled function gets its own range, after those of the functions
 * sampled before it. In the process several functions may have had the same address, or one function several.
 */
#ifndef XPROF_JIT_ADDRESSES_H
#define XPROF_JIT_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>

#include "base/u64_map.h"
#include "elf/symbol_file.h"
#include "jit/code.h"
#include "profile/profile.h"

/* Zeroed: empty. */
struct xp_jit_addresses {
	struct xp_u64_map numbers; /* index in syms, by the code's index */
	struct xp_sym *syms;	   /* in address order, from 0; the registry owns their names */
	size_t count;
	size_t room;
	uint64_t end;
};

/*
 * Moves a frame in this range of code to the address of its function in the profile. Returns 0 or -errno: -ENOMEM,
 * -ENOSPC if the profile's range is full.
 */
int xp_jit_addresses_add(struct xp_jit_addresses *places, const struct xp_jit_range *range, struct xp_frame *frame);
void xp_jit_addresses_free(struct xp_jit_addresses *places);

#endif
