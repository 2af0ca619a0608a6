/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs the program of an unwind entry: from its instructions to where the caller's registers are, row by row, in one
 * pass. (libdw's dwarf_cfi_addrframe() starts at the entry's beginning for each of its rows, and keeps a tree of all
 * entries: ten times the work for all rows of a file.) Of registers only those are followed that tables tell of.
 *
 * Sources: DWARF 5, sections 6.4.2, 2.5.1, 7.7.1 and 7.24; System V ABI for x86-64, figure 3.36 (numbers of registers).
 */
#ifndef XPROF_CFI_PROGRAM_H
#define XPROF_CFI_PROGRAM_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

#include "unwind/cfi_table.h"

/* Bytes of a DWARF expression. */
struct xp_cfi_expression {
	const uint8_t *at;
	const uint8_t *end;
};

enum xp_cfi_how {
	XP_CFI_SAVED_SAME,    /* not changed */
	XP_CFI_SAVED_NOWHERE, /* undefined: there is no such value */
	XP_CFI_SAVED_AT_CFA,  /* at CFA + offset */
	XP_CFI_SAVED_AT_REG,  /* at reg + offset */
	XP_CFI_SAVED_ELSE,
};

struct xp_cfi_saved {
	enum xp_cfi_how how;
	uint64_t reg;
	int64_t offset;
};

/* What holds for one stretch of code. */
struct xp_cfi_registers {
	bool has_cfa;
	struct xp_cfi_expression cfa; /* at NULL: CFA = cfa_reg + cfa_offset */
	uint64_t cfa_reg;
	int64_t cfa_offset;
	struct xp_cfi_saved rbp;
	struct xp_cfi_saved ra;
};

/* The part that entries have in common (CIE). */
struct xp_cfi_common {
	bool is_bad; /* so are all its entries */
	bool is_signal;
	uint64_t code_factor;
	int64_t data_factor;
	struct xp_cfi_registers registers; /* at the beginning of each */
};

void xp_cfi_common_read(struct xp_cfi_common *common, const Dwarf_CIE *cie);

#define XP_CFI_REMEMBERED_MAX 16 /* .cfi_remember_state; compilers nest it once */

/* Set by the caller: the first four, and what is not named here to zero. common outlives it. */
struct xp_cfi_program {
	const struct xp_cfi_common *common;
	const uint8_t *at; /* the next instruction */
	const uint8_t *end;
	uint64_t place; /* the address of the next row: at first, of the entry's code */
	bool is_bad;	/* an instruction is; the row in hand and the rest have no rules */
	unsigned int depth;
	struct xp_cfi_registers now;
	struct xp_cfi_registers remembered[XP_CFI_REMEMBERED_MAX];
};

void xp_cfi_program_start(struct xp_cfi_program *program, const struct xp_cfi_common *common, const uint8_t *at,
			  const uint8_t *end, uint64_t place);
/*
 * Goes on to the next row, of code from the present place up to the new one, where now holds. false: the row is the
 * last, and goes on to the end of the entry's code.
 */
bool xp_cfi_program_next(struct xp_cfi_program *program);

/* Takes a register and what is added to it (DW_OP_breg*) off the front of an expression. false: that is none. */
bool xp_cfi_take_sum(struct xp_cfi_expression *expression, uint64_t *reg, int64_t *offset);
/* The same of DW_OP_plus_uconst, up to INT32_MAX. */
bool xp_cfi_take_plus(struct xp_cfi_expression *expression, int64_t *offset);

#endif
