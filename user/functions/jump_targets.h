/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the targets of a function's indirect jumps: another function (a tail call through a pointer), or the function's
 * own code (a switch, a computed goto).
 *
 * In position-independent code, gcc and clang implement a switch with a table of 32-bit offsets from the table. The
 * function computes the table's address with lea, adds an offset to it and jumps. Each lea of the function may compute
 * such an address: entries are read until one is not an instruction of the function. So the bound of the switch is not
 * needed, and reading too many entries only adds targets. Entries of tables of 64-bit addresses are marked already
 * (code_map.h).
 *
 * If a jump adds an offset but has no table, its targets are unknown. But their unwind row is that of the jump, so code
 * with another row is not a target.
 */
#ifndef XPROF_FUNCTIONS_JUMP_TARGETS_H
#define XPROF_FUNCTIONS_JUMP_TARGETS_H

#include "functions/code_groups.h"

enum xp_jump_kind {
	XP_JUMP_TAIL,	   /* leaves the function */
	XP_JUMP_INSIDE,	   /* its targets are marked */
	XP_JUMP_UNKNOWN,   /* stays in the function; its targets are unknown */
	XP_JUMP_AMBIGUOUS, /* may leave the function or stay in it */
};

/* Position of the canonical frame address: a register and an offset. */
struct xp_code_row {
	bool is_known;
	uint64_t reg;
	int64_t offset;
};

#define XP_UNKNOWN_ROWS_MAX 8

/* A function while the targets of its indirect jumps are searched for. */
struct xp_jump_targets {
	struct xp_code_map *map;
	const struct xp_code_part *parts;
	uint32_t root;
	bool are_tables_read;
	bool has_table;
	bool are_labels_searched;
	bool has_label;
	bool is_loop;		/* a table contains the function's first instruction */
	uint64_t *table_budget; /* how many entries may still be read, for the whole file */
	uint64_t *row_budget;	/* how many unwind rows may still be read, for the whole file */
	/* Rows of the jumps with unknown targets, and of those with marked targets. Counts may exceed the arrays. */
	struct xp_code_row unknown[XP_UNKNOWN_ROWS_MAX];
	size_t unknown_count;
	struct xp_code_row inside[XP_UNKNOWN_ROWS_MAX];
	size_t inside_count;
};

/* part: entry that contains the jump. Marks the targets that it finds. */
enum xp_jump_kind xp_jump_targets_find(struct xp_jump_targets *targets, uint32_t part, uint64_t jump);

/* Call this if nothing reaches some code of the function: then some targets of its jumps are not marked. */
void xp_jump_targets_doubt(struct xp_jump_targets *targets);

/* Returns whether a jump with unknown targets may lead to this address in this part. */
bool xp_jump_targets_may_be(const struct xp_jump_targets *targets, uint32_t part, uint64_t vaddr);

#endif
