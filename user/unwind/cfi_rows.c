// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_rows.h"

#include <dwarf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "base/array.h"
#include "base/util.h"

#define DEREFS_MAX (UINT16_MAX + 1u)
#define DEREFS_SEARCHED 64
#define RSP_IN_UCONTEXT offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP])

static uint8_t base_of(uint64_t reg)
{
	return reg == XP_CFI_REG_RSP ? XP_CFI_BASE_RSP : reg == XP_CFI_REG_RBP ? XP_CFI_BASE_RBP : XP_CFI_BASE_CFA;
}

/* ---- CFA ---- */

static enum xp_cfi_reason sum_rule(uint64_t reg, int64_t offset, struct xp_cfi_row *row)
{
	bool is_other = base_of(reg) == XP_CFI_BASE_CFA;

	if (reg >= XP_CFI_REG_RA)
		return XP_CFI_CFA_REGISTER;
	if (offset < 0 || offset % 8 || offset / 8 > (is_other ? XP_CFI_REG_WORDS_MAX : UINT16_MAX))
		return XP_CFI_CFA_RANGE;
	if (is_other) {
		row->rule = XP_CFI_REG;
		row->cfa = XP_CFI_REG_CFA(reg, offset / 8);
		return XP_CFI_KNOWN;
	}
	row->rule = reg == XP_CFI_REG_RSP ? XP_CFI_RSP : XP_CFI_RBP;
	row->cfa = (uint16_t)(offset / 8);
	return XP_CFI_KNOWN;
}

/* Recognizes the entry that linkers make for all stubs (PLT) through which a program calls libraries. */
static bool is_plt(const struct xp_dwarf_cursor *cfa, struct xp_cfi_row *row)
{
	static const uint8_t expected[] = { DW_OP_breg7, 8,	   DW_OP_breg16, 0,	    DW_OP_lit15, DW_OP_and,
					    0,		 DW_OP_ge, DW_OP_lit3,	 DW_OP_shl, DW_OP_plus };
	enum { THRESHOLD = 6 };
	const uint8_t *at = cfa->at;

	if (cfa->end - at != sizeof(expected) || memcmp(at, expected, THRESHOLD) ||
	    memcmp(at + THRESHOLD + 1, expected + THRESHOLD + 1, sizeof(expected) - THRESHOLD - 1) ||
	    at[THRESHOLD] < DW_OP_lit1 || at[THRESHOLD] > DW_OP_lit15)
		return false;
	row->rule = XP_CFI_PLT;
	row->cfa = at[THRESHOLD] - DW_OP_lit0;
	return true;
}

static bool fits(int64_t offset)
{
	return offset >= INT32_MIN && offset <= INT32_MAX;
}

static enum xp_cfi_reason expression_rule(struct xp_dwarf_cursor cfa, struct xp_cfi_row *row,
					  struct xp_cfi_deref *deref)
{
	int64_t offset, add = 0;
	uint64_t reg;

	if (is_plt(&cfa, row))
		return XP_CFI_KNOWN;
	if (!xp_cfi_parse_sum(&cfa, &reg, &offset))
		return XP_CFI_CFA_EXPRESSION;
	if (cfa.at == cfa.end)
		return sum_rule(reg, offset, row);
	if (*cfa.at++ != DW_OP_deref || (cfa.at < cfa.end && !xp_cfi_parse_plus(&cfa, &add)) || cfa.at < cfa.end ||
	    !fits(offset))
		return XP_CFI_CFA_EXPRESSION;
	if (base_of(reg) == XP_CFI_BASE_CFA)
		return XP_CFI_CFA_REGISTER;
	row->rule = XP_CFI_DEREF;
	*deref = (struct xp_cfi_deref){ .offset = (int32_t)offset, .add = (int32_t)add, .base = base_of(reg) };
	return XP_CFI_KNOWN;
}

static enum xp_cfi_reason cfa_rule(const struct xp_cfi_registers *registers, struct xp_cfi_row *row,
				   struct xp_cfi_deref *deref)
{
	if (!registers->has_cfa)
		return XP_CFI_CFA_EXPRESSION;
	if (registers->cfa.at)
		return expression_rule(registers->cfa, row, deref);
	return sum_rule(registers->cfa_reg, registers->cfa_offset, row);
}

/* ---- where rbp was saved ---- */

static bool put_rbp(struct xp_cfi_row *row, int64_t offset)
{
	if (offset % 8 || offset / 8 <= XP_CFI_RBP_SAME || offset / 8 > INT8_MAX)
		return false;
	row->rbp = (int8_t)(offset / 8);
	return true;
}

static bool put_rbp_at_reg(struct xp_cfi_row *row, const struct xp_cfi_saved *saved, struct xp_cfi_deref *deref)
{
	uint8_t base = base_of(saved->reg);

	if (base == XP_CFI_BASE_CFA || !fits(saved->offset))
		return false;
	switch (row->rule) {
	case XP_CFI_RSP:
		return base == XP_CFI_BASE_RSP && put_rbp(row, saved->offset - row->cfa * 8);
	case XP_CFI_RBP:
		return base == XP_CFI_BASE_RBP && put_rbp(row, saved->offset - row->cfa * 8);
	case XP_CFI_DEREF:
		deref->rbp_base = base;
		deref->rbp_offset = (int32_t)saved->offset;
		return true;
	}
	return false;
}

static bool rbp_rule(const struct xp_cfi_saved *rbp, struct xp_cfi_row *row, struct xp_cfi_deref *deref)
{
	switch (rbp->how) {
	case XP_CFI_SAVED_SAME:
		row->rbp = XP_CFI_RBP_SAME;
		return true;
	case XP_CFI_SAVED_AT_CFA:
		return put_rbp(row, rbp->offset);
	case XP_CFI_SAVED_AT_REG:
		return put_rbp_at_reg(row, rbp, deref);
	case XP_CFI_SAVED_NOWHERE:
	case XP_CFI_SAVED_ELSE:
		break;
	}
	return false;
}

/*
 * Recognizes the signal return of the C library: its entry reads the CFA, the interrupted rsp, from the kernel's
 * ucontext_t.
 */
static bool is_signal_return(const struct xp_cfi_row *row, const struct xp_cfi_deref *deref)
{
	return row->rule == XP_CFI_DEREF && deref->base == XP_CFI_BASE_RSP && !deref->add &&
	       deref->offset == (int32_t)RSP_IN_UCONTEXT;
}

/*
 * Sets all of row except its pc. If the rule is XP_CFI_DEREF, sets deref instead of the row's cfa. is_signal: signal
 * handlers return to this code. Returns XP_CFI_KNOWN, or the reason why the row is XP_CFI_NONE.
 */
static enum xp_cfi_reason rule_of(const struct xp_cfi_registers *registers, bool is_signal, struct xp_cfi_row *row,
				  struct xp_cfi_deref *deref)
{
	const struct xp_cfi_saved *ra = &registers->ra;
	enum xp_cfi_reason reason;

	*row = (struct xp_cfi_row){ 0 };
	*deref = (struct xp_cfi_deref){ 0 };
	if (ra->how == XP_CFI_SAVED_NOWHERE) {
		row->rule = XP_CFI_END;
		return XP_CFI_KNOWN;
	}
	reason = cfa_rule(registers, row, deref);
	if (!reason && is_signal && is_signal_return(row, deref)) {
		*row = (struct xp_cfi_row){ .rule = XP_CFI_SIGNAL };
		return XP_CFI_KNOWN;
	}
	if (!reason && (ra->how != XP_CFI_SAVED_AT_CFA || ra->offset != -8))
		reason = XP_CFI_RA_RULE;
	if (!reason && !rbp_rule(&registers->rbp, row, deref))
		reason = XP_CFI_RBP_RULE;
	if (reason)
		*row = (struct xp_cfi_row){ .rule = XP_CFI_NONE };
	return reason;
}

/* ---- rows ---- */

/*
 * Sets *index to the index of this deref. Equal derefs share an index if they are close: a program has only a few of
 * them, and the search must stay fast for a hostile program.
 */
static int intern_deref(struct xp_cfi_rows *rows, const struct xp_cfi_deref *deref, uint16_t *index)
{
	size_t end = rows->deref_count - XP_MIN(rows->deref_count, (size_t)DEREFS_SEARCHED);

	for (size_t i = rows->deref_count; i > end; i--)
		if (!memcmp(&rows->derefs[i - 1], deref, sizeof(*deref))) {
			*index = (uint16_t)(i - 1);
			return 0;
		}
	if (rows->deref_count == DEREFS_MAX)
		return -EFBIG;
	if (XP_ARRAY_RESERVE(rows->derefs, rows->deref_room, rows->deref_count + 1))
		return -ENOMEM;
	*index = (uint16_t)rows->deref_count;
	rows->derefs[rows->deref_count++] = *deref;
	return 0;
}

static bool is_same(const struct xp_cfi_row *a, const struct xp_cfi_row *b)
{
	return a->rule == b->rule && a->cfa == b->cfa && a->rbp == b->rbp;
}

int xp_cfi_rows_add(struct xp_cfi_rows *rows, uint32_t offset, const struct xp_cfi_row *row,
		    const struct xp_cfi_deref *deref)
{
	struct xp_cfi_row new = *row;

	new.pc = offset;
	if (new.rule == XP_CFI_DEREF) {
		int err = intern_deref(rows, deref, &new.cfa);

		if (err)
			return err;
	}
	if (rows->count && rows->all[rows->count - 1].pc == offset)
		rows->count--;
	if (rows->count ? is_same(&rows->all[rows->count - 1], &new) : new.rule == XP_CFI_NONE)
		return 0;
	if (rows->count == XP_CFI_ROWS_MAX)
		return -EFBIG;
	return XP_ARRAY_ADD(rows->all, rows->count, rows->room, new);
}

int xp_cfi_rows_run(struct xp_cfi_rows *rows, struct xp_cfi_program *program, uint64_t start, uint64_t end,
		    uint64_t to_offset)
{
	int err = 0;

	while (!err && start < end) {
		bool has_next = xp_cfi_program_next(program);
		uint64_t row_end = has_next ? XP_MIN(program->place, end) : end;
		enum xp_cfi_reason reason = XP_CFI_BAD_ENTRY;
		struct xp_cfi_row row = { .rule = XP_CFI_NONE };
		struct xp_cfi_deref deref;

		if (row_end <= start)
			continue;
		if (!program->code.bad)
			reason = rule_of(&program->now, program->common->is_signal, &row, &deref);
		err = xp_cfi_rows_add(rows, (uint32_t)(start + to_offset), &row, &deref);
		rows->code_bytes[reason] += row_end - start;
		start = row_end;
	}
	return err;
}

void xp_cfi_rows_find(const struct xp_cfi_rows *rows, uint32_t offset, struct xp_cfi_found *found)
{
	size_t low = XP_FIND_FIRST(rows->count, i, rows->all[i].pc <= offset);

	*found = (struct xp_cfi_found){ .row.rule = XP_CFI_NONE };
	if (!low)
		return;
	found->row = rows->all[low - 1];
	if (found->row.rule == XP_CFI_DEREF)
		found->deref = rows->derefs[found->row.cfa];
}

size_t xp_cfi_rows_bytes(const struct xp_cfi_rows *rows)
{
	return rows->room * sizeof(*rows->all) + rows->deref_room * sizeof(*rows->derefs);
}

int xp_cfi_rows_write(const struct xp_cfi_rows *rows, struct xp_cfi_header *header, int fd)
{
	static const struct xp_cfi_row none;
	int err;

	header->magic = XP_CFI_MAGIC;
	header->row_count = (uint32_t)XP_MAX(rows->count, (size_t)1);
	header->deref_count = (uint32_t)rows->deref_count;
	err = xp_write_all(fd, header, sizeof(*header));
	if (!err)
		err = xp_write_all(fd, rows->count ? rows->all : &none, header->row_count * sizeof(none));
	if (!err)
		err = xp_write_all(fd, rows->derefs, rows->deref_count * sizeof(*rows->derefs));
	return err;
}

void xp_cfi_rows_free(struct xp_cfi_rows *rows)
{
	free(rows->all);
	free(rows->derefs);
}
