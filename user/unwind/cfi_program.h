/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs the program of an unwind entry: converts its instructions to the locations of the caller's registers, row by
 * row, in one pass. (libdw's dwarf_cfi_addrframe() starts at the beginning of the entry for each row, and keeps a tree
 * of all entries: for all rows of a file, that is ten times the work.) Follows only the registers that tables describe.
 *
 * Sources: DWARF 5, sections 6.4.2, 2.5.1, 7.7.1 and 7.24; System V ABI for x86-64, figure 3.36 (register numbers).
 */
#ifndef XPROF_UNWIND_CFI_PROGRAM_H
#define XPROF_UNWIND_CFI_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "elf/dwarf_cursor.h"
#include "unwind/cfi_table.h"

enum xp_cfi_how {
	XP_CFI_SAVED_SAME,    /* unchanged */
	XP_CFI_SAVED_NOWHERE, /* undefined: the value is lost */
	XP_CFI_SAVED_AT_CFA,  /* at CFA + offset */
	XP_CFI_SAVED_AT_REG,  /* at reg + offset */
	XP_CFI_SAVED_ELSE,
};

struct xp_cfi_saved {
	enum xp_cfi_how how;
	uint64_t reg;
	int64_t offset;
};

/* The rules for one range of code. */
struct xp_cfi_registers {
	bool has_cfa;
	struct xp_dwarf_cursor cfa; /* if at is NULL: CFA = cfa_reg + cfa_offset */
	uint64_t cfa_reg;
	int64_t cfa_offset;
	struct xp_cfi_saved rbp;
	struct xp_cfi_saved ra;
};

/* The part that entries share (CIE). */
struct xp_cfi_common {
	bool is_bad; /* true: all its entries are malformed, too */
	bool is_signal;
	uint64_t code_factor;
	int64_t data_factor;
	struct xp_cfi_registers registers; /* at the start of each entry */
};

/* A CIE as it is in the file. */
struct xp_cfi_cie {
	uint64_t code_factor;
	int64_t data_factor;
	uint64_t return_register;
	bool is_signal;
	const uint8_t *at; /* the instructions at the start of each entry */
	const uint8_t *end;
};

void xp_cfi_common_read(struct xp_cfi_common *common, const struct xp_cfi_cie *cie);

#define XP_CFI_REMEMBERED_MAX 16 /* depth of .cfi_remember_state; compilers nest it once */

/* common must outlive the program. */
struct xp_cfi_program {
	const struct xp_cfi_common *common;
	struct xp_dwarf_cursor
	    code;	/* at the next instruction; bad: the current row and all later ones have no rules */
	uint64_t place; /* address of the next row; at first, the start of the entry's code */
	unsigned int depth;
	struct xp_cfi_registers now;
	struct xp_cfi_registers remembered[XP_CFI_REMEMBERED_MAX];
};

void xp_cfi_program_start(struct xp_cfi_program *program, const struct xp_cfi_common *common, const uint8_t *at,
			  const uint8_t *end, uint64_t place);
/*
 * Moves to the next row. `now` then contains the rules of the code from the old place to the new one. Returns false at
 * the last row, which extends to the end of the entry's code.
 */
bool xp_cfi_program_next(struct xp_cfi_program *program);

/* Parses a register plus an offset (DW_OP_breg*) at the front of an expression. Returns false if there is none. */
bool xp_cfi_parse_sum(struct xp_dwarf_cursor *expression, uint64_t *reg, int64_t *offset);
/* Parses DW_OP_plus_uconst, up to INT32_MAX, in the same way. */
bool xp_cfi_parse_plus(struct xp_dwarf_cursor *expression, int64_t *offset);

#endif
