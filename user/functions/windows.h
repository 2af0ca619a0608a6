/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the window of a site; call_plan.h has the rules. */
#ifndef XPROF_FUNCTIONS_WINDOWS_H
#define XPROF_FUNCTIONS_WINDOWS_H

#include "functions/jump_targets.h"
#include "functions/call_plan.h"

/* Windows of the sites of one function. */
struct xp_windows {
	struct xp_code_map *map;
	const struct xp_jump_targets *targets;
	struct xp_call_plan *plan;
	size_t first;	  /* index of the function's first window in the plan */
	bool has_springs; /* windows of 2 bytes are allowed */
};

/*
 * Finds a window for an exit in this part, perhaps the window of another exit. Call it for all exits without springs
 * first: padding is more useful for the return before it. Returns 0 or -ENOMEM. *window: XP_NO_WINDOW if there is none.
 */
int xp_windows_exit(struct xp_windows *windows, uint32_t part, uint64_t vaddr, uint32_t *window);
/* Like xp_windows_exit(), for the entry, after all exits have windows. It may share the window of an exit. */
int xp_windows_entry(struct xp_windows *windows, uint32_t part, uint64_t vaddr, uint32_t *window);

#endif
