/* SPDX-License-Identifier: BSD-2-Clause */
/* What a plan (call_plan.h) writes for one function: trampolines, and the jumps to them in its code. */
#ifndef XPROF_FUNCTIONS_PATCHES_H
#define XPROF_FUNCTIONS_PATCHES_H

#include "functions/call_plan.h"

/* A function and its address in the process. */
struct xp_patched_function {
	const struct xp_call_plan *plan;
	const struct xp_call_plan_function *function;
	const uint8_t *code; /* the original bytes of the object's code */
	uint64_t code_vaddr; /* address of its first byte in the file */
	uint64_t bias;	     /* address in the process minus address in the file */
	uint64_t slots[2];   /* addresses of the slots that record entries and exits */
	uint32_t words[4];   /* word that is passed to the slot, for each enum xp_site_kind */
};

/* A jump: 5 bytes, or 2, at an address in the process. Write all jumps of a function, or none. */
struct xp_code_patch {
	uint64_t address;
	uint8_t count;
	uint8_t bytes[XP_WINDOW_BYTES];
};

/*
 * Encodes the trampoline of a window (its index in the plan) for this address, and its one or two jumps, that of a
 * spring first. Returns the number of bytes of the trampoline; 0 if a target is out of reach.
 */
size_t xp_patches_encode(const struct xp_patched_function *patched, uint32_t window, uint64_t at,
			 uint8_t bytes[XP_TRAMPOLINE_BYTES_MAX], struct xp_code_patch jumps[2]);

#endif
