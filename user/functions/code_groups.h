/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the unwind entries (FDEs) that belong to one function. Compilers move code that rarely runs to a fragment with
 * its own entry (.cold): the function jumps there, and the fragment returns from the function or jumps back. A fragment
 * is recognized by its first unwind row, which already has a frame. A fragment of a function without a frame is
 * recognized by its symbol, or by jumps into the middle of that function if no call leads to the fragment.
 */
#ifndef XPROF_FUNCTIONS_CODE_GROUPS_H
#define XPROF_FUNCTIONS_CODE_GROUPS_H

#include "functions/code_map.h"

#define XP_NO_PART UINT32_MAX

enum xp_part_kind {
	XP_PART_FUNCTION,
	XP_PART_FRAGMENT,
	XP_PART_OTHER, /* procedure linkage table, returns from signal handlers */
};

/* An entry. */
struct xp_code_part {
	uint8_t kind;	/* enum xp_part_kind */
	bool is_shared; /* its code is also part of another function */
	bool is_loop;	/* a function whose own code jumps to its first instruction */
	bool leaves;	/* jumps to code that no entry covers */
	uint32_t root;	/* function of a fragment; XP_NO_PART: unknown. Of a function: itself */
	uint32_t next;	/* the next part of the function; XP_NO_PART: none */
};

/* Fills parts, one for each of map->fdes.all, zeroed by the caller. Fragments follow their function in its list. */
void xp_code_groups_find(const struct xp_code_map *map, struct xp_code_part *parts);

/* Returns whether a jump to this address leaves the function with this root, because another function starts there. */
bool xp_code_leaves(const struct xp_code_map *map, const struct xp_code_part *parts, uint32_t root, uint64_t target);

/* Returns the first instruction of the function after endbr64. */
uint64_t xp_code_entry(const struct xp_code_map *map, const struct xp_cfi_fde *fde);

#endif
