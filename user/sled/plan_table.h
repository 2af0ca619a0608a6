/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sled table of a file without sleds: its functions are the selected functions that can be patched, its sleds their
 * sites. Exits that need a probe are not in it. A return is a tail exit: its trampoline calls the stub as the code of a
 * tail exit sled does. In a Go program, all sites are probed.
 */
#ifndef XPROF_SLED_PLAN_TABLE_H
#define XPROF_SLED_PLAN_TABLE_H

#include <stdbool.h>

#include "elf/sled_table.h"
#include "functions/ask.h"

struct xp_plan_table {
	struct xp_planned planned;
	uint32_t *functions; /* index in the plan of each function of the table */
	/*
	 * Number of selected functions that cannot be recorded, by reason. XP_CALL_PLAN_OK: they need an impossible
	 * probe.
	 */
	size_t left_out[XP_CALL_PLAN_REASONS];
};

/* Returns whether a function with these names is wanted. */
typedef bool (*xp_wanted)(const void *arg, const char *const *names, size_t count);

/*
 * Plans the wanted functions of an open file. *table borrows names from *plan. Returns 0 or -errno, with a message
 * (why.h): -EOPNOTSUPP if the file's functions cannot be patched, or an error of xp_planned_ask(). The caller frees
 * *plan and *table; on error they are NULL.
 */
int xp_plan_table_make(struct xp_plan_table **plan, struct xp_sled_table **table, int fd, const char *path,
		       xp_wanted wanted, const void *arg);
/* Returns whether the functions are those of a Go program: each site is probed. NULL: false. */
static inline bool xp_plan_table_is_go(const struct xp_plan_table *plan)
{
	return plan && plan->planned.is_go;
}

/*
 * Formats "570 patched, 2 partly (3 exits with probes); not recorded: 1 loop, 2 ambiguous", with the words of `xprof
 * list`. For a Go program: "572 probed; not recorded: 2 assembly".
 */
void xp_plan_table_text(const struct xp_plan_table *plan, size_t function_count, char *to, size_t size);
void xp_plan_table_free(struct xp_plan_table *plan);

#endif
