/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where JIT functions stand in a profile: each that was sampled gets a range of its own, behind those that were sampled
 * before it, for in the process several may have been at one address, or one at several.
 */
#ifndef XPROF_JIT_PLACES_H
#define XPROF_JIT_PLACES_H

#include <stddef.h>
#include <stdint.h>

#include "jit/code.h"
#include "base/u64_map.h"
#include "profile/profile.h"
#include "elf/symbol_file.h"

/* Zeroed: empty. */
struct xp_jit_places {
	struct xp_number_map numbers; /* in syms, by the code's index */
	struct xp_sym *syms;	      /* in order of address, from 0 on; their names are the registry's */
	size_t count;
	size_t room;
	uint64_t end;
};

/* Moves a frame in this range of code to its function's place. -ENOMEM; -ENOSPC the profile's range is full. */
int xp_jit_places_put(struct xp_jit_places *places, const struct xp_jit_range *range, struct xp_profile_frame *frame);
void xp_jit_places_free(struct xp_jit_places *places);

#endif
