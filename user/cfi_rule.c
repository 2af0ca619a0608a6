// SPDX-License-Identifier: BSD-2-Clause
#include "cfi_rule.h"

#include <dwarf.h>
#include <string.h>
#include <ucontext.h>

#include "util.h"

/* DWARF's numbers of registers (System V ABI for x86-64, figure 3.36). */
enum { RBP = 6, RSP = 7, RA = 16 };

#define RSP_IN_UCONTEXT offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP])

/* A place or a value: a register and what is added. */
struct sum {
	uint64_t reg;
	int64_t offset;
};

static bool is_sum(const Dwarf_Op *op, struct sum *sum)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		*sum = (struct sum){ op->atom - DW_OP_breg0, (int64_t)op->number };
		return true;
	}
	if (op->atom == DW_OP_bregx) {
		*sum = (struct sum){ op->number, (int64_t)op->number2 };
		return true;
	}
	return false;
}

static uint8_t base_of(uint64_t reg)
{
	return reg == RSP ? XP_CFI_BASE_RSP : reg == RBP ? XP_CFI_BASE_RBP : XP_CFI_BASE_CFA;
}

/* ---- CFA ---- */

static enum xp_cfi_reason sum_rule(const struct sum *sum, struct xp_cfi_row *row)
{
	if (base_of(sum->reg) == XP_CFI_BASE_CFA)
		return XP_CFI_CFA_REGISTER;
	if (sum->offset < 0 || sum->offset % 8 || sum->offset / 8 > UINT16_MAX)
		return XP_CFI_CFA_RANGE;
	row->rule = sum->reg == RSP ? XP_CFI_RSP : XP_CFI_RBP;
	row->cfa = (uint16_t)(sum->offset / 8);
	return XP_CFI_KNOWN;
}

/* Of the stubs through which a program calls into libraries: the linker's one entry for all of them. */
static bool is_plt(const Dwarf_Op *ops, size_t count, struct xp_cfi_row *row)
{
	static const struct {
		uint8_t atom;
		uint8_t number;
	} expected[] = {
		{ DW_OP_breg7, 8 }, { DW_OP_breg16, 0 }, { DW_OP_lit15, 0 }, { DW_OP_and, 0 },	{ 0, 0 },
		{ DW_OP_ge, 0 },    { DW_OP_lit3, 0 },	 { DW_OP_shl, 0 },   { DW_OP_plus, 0 },
	};
	enum { THRESHOLD = 4 };

	if (count != XP_ARRAY_SIZE(expected) || ops[THRESHOLD].atom < DW_OP_lit1 || ops[THRESHOLD].atom > DW_OP_lit15)
		return false;
	for (size_t i = 0; i < count; i++)
		if (i != THRESHOLD && (ops[i].atom != expected[i].atom || ops[i].number != expected[i].number))
			return false;
	row->rule = XP_CFI_PLT;
	row->cfa = ops[THRESHOLD].atom - DW_OP_lit0;
	return true;
}

static bool fits(int64_t offset)
{
	return offset >= INT32_MIN && offset <= INT32_MAX;
}

static enum xp_cfi_reason expression_rule(const Dwarf_Op *ops, size_t count, struct xp_cfi_row *row,
					  struct xp_cfi_deref *deref)
{
	bool adds = count == 3 && ops[2].atom == DW_OP_plus_uconst && ops[2].number <= INT32_MAX;
	struct sum sum;

	if (is_plt(ops, count, row))
		return XP_CFI_KNOWN;
	if ((count != 2 && !adds) || !is_sum(&ops[0], &sum) || ops[1].atom != DW_OP_deref || !fits(sum.offset))
		return XP_CFI_CFA_EXPRESSION;
	if (base_of(sum.reg) == XP_CFI_BASE_CFA)
		return XP_CFI_CFA_REGISTER;
	row->rule = XP_CFI_DEREF;
	*deref = (struct xp_cfi_deref){
		.offset = (int32_t)sum.offset,
		.add = adds ? (int32_t)ops[2].number : 0,
		.base = base_of(sum.reg),
	};
	return XP_CFI_KNOWN;
}

static enum xp_cfi_reason cfa_rule(Dwarf_Frame *frame, struct xp_cfi_row *row, struct xp_cfi_deref *deref)
{
	struct sum sum;
	Dwarf_Op *ops;
	size_t count;

	if (dwarf_frame_cfa(frame, &ops, &count) || !count)
		return XP_CFI_CFA_EXPRESSION;
	if (count == 1 && is_sum(&ops[0], &sum))
		return sum_rule(&sum, row);
	return expression_rule(ops, count, row, deref);
}

/* ---- where registers were saved ---- */

enum saved {
	SAVED_NOWHERE, /* undefined: there is no such value */
	SAVED_SAME,    /* not changed */
	SAVED_AT_CFA,  /* at CFA + offset */
	SAVED_AT_REG,  /* at reg + offset */
	SAVED_ELSE,
};

static enum saved saved_at(Dwarf_Frame *frame, int reg, struct sum *sum)
{
	Dwarf_Op memory[3], *ops;
	size_t count;

	if (dwarf_frame_register(frame, reg, memory, &ops, &count))
		return SAVED_ELSE;
	if (!count)
		return ops ? SAVED_NOWHERE : SAVED_SAME;
	if (ops[0].atom != DW_OP_call_frame_cfa || count > 2)
		return SAVED_ELSE;
	sum->offset = 0;
	if (count == 1)
		return SAVED_AT_CFA;
	if (ops[1].atom == DW_OP_plus_uconst) {
		sum->offset = (int64_t)ops[1].number;
		return SAVED_AT_CFA;
	}
	/* DW_CFA_expression starts with the CFA on its stack, and may leave it there. */
	return is_sum(&ops[1], sum) ? SAVED_AT_REG : SAVED_ELSE;
}

static bool put_rbp(struct xp_cfi_row *row, int64_t offset)
{
	if (offset % 8 || offset / 8 <= XP_CFI_RBP_SAME || offset / 8 > INT8_MAX)
		return false;
	row->rbp = (int8_t)(offset / 8);
	return true;
}

static bool put_rbp_at_reg(struct xp_cfi_row *row, const struct sum *sum, struct xp_cfi_deref *deref)
{
	uint8_t base = base_of(sum->reg);

	if (base == XP_CFI_BASE_CFA || !fits(sum->offset))
		return false;
	switch (row->rule) {
	case XP_CFI_RSP:
		return base == XP_CFI_BASE_RSP && put_rbp(row, sum->offset - row->cfa * 8);
	case XP_CFI_RBP:
		return base == XP_CFI_BASE_RBP && put_rbp(row, sum->offset - row->cfa * 8);
	case XP_CFI_DEREF:
		deref->rbp_base = base;
		deref->rbp_offset = (int32_t)sum->offset;
		return true;
	}
	return false;
}

static bool rbp_rule(Dwarf_Frame *frame, struct xp_cfi_row *row, struct xp_cfi_deref *deref)
{
	struct sum sum;

	switch (saved_at(frame, RBP, &sum)) {
	case SAVED_SAME:
		row->rbp = XP_CFI_RBP_SAME;
		return true;
	case SAVED_AT_CFA:
		return put_rbp(row, sum.offset);
	case SAVED_AT_REG:
		return put_rbp_at_reg(row, &sum, deref);
	case SAVED_NOWHERE:
	case SAVED_ELSE:
		break;
	}
	return false;
}

/* The C library's: its entry finds the CFA, the interrupted rsp, in the ucontext_t that the kernel put there. */
static bool is_signal_return(const struct xp_cfi_row *row, const struct xp_cfi_deref *deref)
{
	return row->rule == XP_CFI_DEREF && deref->base == XP_CFI_BASE_RSP && !deref->add &&
	       deref->offset == (int32_t)RSP_IN_UCONTEXT;
}

enum xp_cfi_reason xp_cfi_rule_of(Dwarf_Frame *frame, bool is_signal, struct xp_cfi_row *row,
				  struct xp_cfi_deref *deref)
{
	enum xp_cfi_reason reason;
	enum saved ra;
	struct sum sum;

	memset(row, 0, sizeof(*row));
	memset(deref, 0, sizeof(*deref));
	ra = saved_at(frame, RA, &sum);
	if (ra == SAVED_NOWHERE) {
		row->rule = XP_CFI_END;
		return XP_CFI_KNOWN;
	}
	reason = cfa_rule(frame, row, deref);
	if (!reason && is_signal && is_signal_return(row, deref)) {
		*row = (struct xp_cfi_row){ .rule = XP_CFI_SIGNAL };
		return XP_CFI_KNOWN;
	}
	if (!reason && (ra != SAVED_AT_CFA || sum.offset != -8))
		reason = XP_CFI_RA_RULE;
	if (!reason && !rbp_rule(frame, row, deref))
		reason = XP_CFI_RBP_RULE;
	if (reason)
		memset(row, 0, sizeof(*row));
	return reason;
}
