/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the indirect jumps of a function go: to another function (a tail call through a pointer), or to its own code
 * (a switch, a computed goto).
 *
 * gcc and clang make a switch in position-independent code of a table of 32-bit offsets from the table. The function
 * computes the table's address with lea, adds an offset to it and jumps. Each lea of the function may be such an
 * address: entries are read until one is not an instruction of the function. So no bound has to be found, and reading
 * beyond the end only adds targets. Tables of 64-bit addresses need no reading: their entries are marked already
 * (code_map.h).
 *
 * A jump that adds an offset but has no table is understood less: its targets are unknown, but their unwind row is that
 * of the jump, so code with another row is no target.
 */
#ifndef XPROF_FUNCTIONS_JUMP_TARGETS_H
#define XPROF_FUNCTIONS_JUMP_TARGETS_H

#include "functions/code_groups.h"

enum xp_jump_kind {
	XP_JUMP_TAIL,	   /* leaves the function */
	XP_JUMP_INSIDE,	   /* its targets are marked */
	XP_JUMP_UNKNOWN,   /* stays in the function; its targets are not known */
	XP_JUMP_AMBIGUOUS, /* may leave the function or stay in it */
};

/* Where the canonical frame address is: a register and an offset. */
struct xp_code_row {
	bool is_known;
	uint64_t reg;
	int64_t offset;
};

#define XP_UNKNOWN_ROWS_MAX 8

/* A function, for a search of the targets of its indirect jumps. */
struct xp_jump_targets {
	struct xp_code_map *map;
	const struct xp_code_part *parts;
	uint32_t root;
	bool are_tables_read;
	bool has_table;
	bool are_labels_searched;
	bool has_label;
	bool is_loop;		/* a table has the function's first instruction */
	uint64_t *table_budget; /* entries that may still be read, of the whole file */
	uint64_t *row_budget;	/* unwind rows, the same */
	/* Rows of the jumps with unknown targets, and of those with marked ones. The counts may exceed the arrays. */
	struct xp_code_row unknown[XP_UNKNOWN_ROWS_MAX];
	size_t unknown_count;
	struct xp_code_row inside[XP_UNKNOWN_ROWS_MAX];
	size_t inside_count;
};

/* part: the entry that has the jump. Marks the targets that it finds. */
enum xp_jump_kind xp_jump_targets_find(struct xp_jump_targets *targets, uint32_t part, uint64_t jump);

/* Not all targets of the jumps inside are marked: nothing reaches some code of the function. */
void xp_jump_targets_doubt(struct xp_jump_targets *targets);

/* Whether one of the jumps with unknown targets may go to this address, which is in this part. */
bool xp_jump_targets_may_be(const struct xp_jump_targets *targets, uint32_t part, uint64_t vaddr);

#endif
