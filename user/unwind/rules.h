/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the rule for an instruction: in the table of its file, or in the unwinding data of JIT code. Caches the rules
 * of tables.
 */
#ifndef XPROF_UNWIND_RULES_H
#define XPROF_UNWIND_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "target/address_space.h"
#include "unwind/cfi_table.h"
#include "unwind/unwind.h"

/* Cache of rules by file and offset; direct-mapped. The rules of a file never change, so entries never become stale. */
#define XP_RULES_CACHE_BITS 14

struct xp_cached_rule {
	uint64_t key; /* 0: empty */
	struct xp_cfi_found found;
};

/* Zeroed except for table and arg, which the caller sets. */
struct xp_rules {
	xp_unwind_table table;
	void *arg;
	struct xp_cached_rule cache[1 << XP_RULES_CACHE_BITS];
};

struct xp_rule {
	struct xp_cfi_found found; /* its rule is XP_CFI_NONE if none was found */
	bool has_table;		   /* the mapping's file has a table, but perhaps no rule for the address */
	bool is_late;		   /* the file's table is being made */
	bool is_code_late;	   /* true: JIT code may get a rule soon */
};

/* Finds the rule for an address in this mapping. code: as in struct xp_unwind_thread. */
void xp_rules_find(struct xp_rules *rules, const struct xp_unwind_code *code, const struct xp_vma *vma,
		   uint64_t address, struct xp_rule *rule);

#endif
