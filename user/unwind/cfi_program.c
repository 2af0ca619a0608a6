// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_program.h"

#include <dwarf.h>
#include <string.h>

/* A hostile section may alternate between CIEs, so that each entry runs these again. Compilers write 6 bytes. */
#define CIE_BYTES_MAX 256

/* ---- expressions ---- */

bool xp_cfi_parse_sum(struct xp_dwarf_cursor *expression, uint64_t *reg, int64_t *offset)
{
	struct xp_dwarf_cursor rest = *expression;
	uint8_t operation = (uint8_t)xp_dwarf_fixed(&rest, 1);

	if (operation >= DW_OP_breg0 && operation <= DW_OP_breg31)
		*reg = operation - DW_OP_breg0;
	else if (operation == DW_OP_bregx)
		*reg = xp_dwarf_uleb(&rest);
	else
		return false;
	*offset = xp_dwarf_sleb(&rest);
	if (rest.bad)
		return false;
	*expression = rest;
	return true;
}

bool xp_cfi_parse_plus(struct xp_dwarf_cursor *expression, int64_t *offset)
{
	struct xp_dwarf_cursor rest = *expression;
	bool is_plus = xp_dwarf_fixed(&rest, 1) == DW_OP_plus_uconst;
	uint64_t value = xp_dwarf_uleb(&rest);

	if (!is_plus || rest.bad || value > INT32_MAX)
		return false;
	*offset = (int64_t)value;
	*expression = rest;
	return true;
}

/* ---- operands ---- */

static void bad(struct xp_cfi_program *program)
{
	program->code.bad = true;
}

/*
 * Reads an operand and multiplies it by the data factor. That applies to all signed operands, but of the unsigned ones
 * only to DW_CFA_offset.
 */
static int64_t factored_operand(struct xp_cfi_program *program, bool is_signed)
{
	uint64_t value = is_signed ? (uint64_t)xp_dwarf_sleb(&program->code) : xp_dwarf_uleb(&program->code);

	return (int64_t)(value * (uint64_t)program->common->data_factor);
}

static struct xp_dwarf_cursor block_operand(struct xp_cfi_program *program)
{
	uint64_t bytes = xp_dwarf_uleb(&program->code);
	struct xp_dwarf_cursor block = program->code;

	xp_dwarf_skip(&program->code, bytes);
	block.end = program->code.at;
	return block;
}

/* ---- instructions ---- */

static void save(struct xp_cfi_program *program, uint64_t reg, struct xp_cfi_saved saved)
{
	if (reg == XP_CFI_REG_RBP)
		program->now.rbp = saved;
	else if (reg == XP_CFI_REG_RA)
		program->now.ra = saved;
}

static void save_at_cfa(struct xp_cfi_program *program, uint64_t reg, int64_t offset)
{
	save(program, reg, (struct xp_cfi_saved){ .how = XP_CFI_SAVED_AT_CFA, .offset = offset });
}

static void restore(struct xp_cfi_program *program, uint64_t reg)
{
	const struct xp_cfi_registers *first = &program->common->registers;

	save(program, reg, reg == XP_CFI_REG_RBP ? first->rbp : first->ra);
}

/*
 * Returns the location from a DW_CFA_expression, which computes an address. The CFA is on the DWARF stack at the start,
 * and may remain there.
 */
static struct xp_cfi_saved saved_by(struct xp_dwarf_cursor place)
{
	struct xp_cfi_saved saved = { .how = XP_CFI_SAVED_AT_CFA };

	if (place.at == place.end)
		return saved;
	if (xp_cfi_parse_sum(&place, &saved.reg, &saved.offset))
		saved.how = XP_CFI_SAVED_AT_REG;
	else if (!xp_cfi_parse_plus(&place, &saved.offset))
		saved.how = XP_CFI_SAVED_ELSE;
	if (place.at < place.end)
		saved.how = XP_CFI_SAVED_ELSE;
	return saved;
}

/* DW_CFA_def_cfa* */
static void define_cfa(struct xp_cfi_program *program, uint8_t code)
{
	struct xp_cfi_registers *now = &program->now;
	bool has_reg = code == DW_CFA_def_cfa || code == DW_CFA_def_cfa_sf || code == DW_CFA_def_cfa_register;

	/* An instruction that changes only the register or only the offset keeps the other. */
	if (code != DW_CFA_def_cfa && code != DW_CFA_def_cfa_sf && (!now->has_cfa || now->cfa.at))
		bad(program);
	if (has_reg)
		now->cfa_reg = xp_dwarf_uleb(&program->code);
	if (code == DW_CFA_def_cfa || code == DW_CFA_def_cfa_offset)
		now->cfa_offset = (int64_t)xp_dwarf_uleb(&program->code);
	else if (code != DW_CFA_def_cfa_register)
		now->cfa_offset = factored_operand(program, true);
	now->has_cfa = true;
	now->cfa = (struct xp_dwarf_cursor){ 0 };
}

/* Executes an instruction about one register, which is its first operand. */
static void define_register(struct xp_cfi_program *program, uint8_t code)
{
	uint64_t reg = xp_dwarf_uleb(&program->code);

	switch (code) {
	case DW_CFA_offset_extended:
	case DW_CFA_offset_extended_sf:
		save_at_cfa(program, reg, factored_operand(program, code == DW_CFA_offset_extended_sf));
		break;
	case DW_CFA_restore_extended:
		restore(program, reg);
		break;
	case DW_CFA_undefined:
		save(program, reg, (struct xp_cfi_saved){ .how = XP_CFI_SAVED_NOWHERE });
		break;
	case DW_CFA_same_value:
		save(program, reg, (struct xp_cfi_saved){ .how = XP_CFI_SAVED_SAME });
		break;
	case DW_CFA_expression:
		save(program, reg, saved_by(block_operand(program)));
		break;
	case DW_CFA_val_expression:
		block_operand(program);
		save(program, reg, (struct xp_cfi_saved){ .how = XP_CFI_SAVED_ELSE });
		break;
	default: /* DW_CFA_register, DW_CFA_val_offset, DW_CFA_val_offset_sf */
		xp_dwarf_uleb(&program->code);
		save(program, reg, (struct xp_cfi_saved){ .how = XP_CFI_SAVED_ELSE });
	}
}

static void remember(struct xp_cfi_program *program)
{
	if (program->depth < XP_CFI_REMEMBERED_MAX)
		program->remembered[program->depth++] = program->now;
	else
		bad(program);
}

static void recall(struct xp_cfi_program *program)
{
	if (program->depth)
		program->now = program->remembered[--program->depth];
	else
		bad(program);
}

/* Executes an instruction that has no operand in its first byte. Returns the distance to the next row. */
static uint64_t execute(struct xp_cfi_program *program, uint8_t code)
{
	switch (code) {
	case DW_CFA_nop:
		return 0;
	case DW_CFA_advance_loc1:
		return xp_dwarf_fixed(&program->code, 1);
	case DW_CFA_advance_loc2:
		return xp_dwarf_fixed(&program->code, 2);
	case DW_CFA_advance_loc4:
		return xp_dwarf_fixed(&program->code, 4);
	case DW_CFA_remember_state:
		remember(program);
		return 0;
	case DW_CFA_restore_state:
		recall(program);
		return 0;
	case DW_CFA_def_cfa_expression:
		program->now.cfa = block_operand(program);
		program->now.has_cfa = true;
		return 0;
	case DW_CFA_GNU_args_size:
		xp_dwarf_uleb(&program->code);
		return 0;
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_def_cfa_register:
	case DW_CFA_def_cfa_offset:
	case DW_CFA_def_cfa_offset_sf:
		define_cfa(program, code);
		return 0;
	case DW_CFA_offset_extended:
	case DW_CFA_offset_extended_sf:
	case DW_CFA_restore_extended:
	case DW_CFA_undefined:
	case DW_CFA_same_value:
	case DW_CFA_register:
	case DW_CFA_expression:
	case DW_CFA_val_expression:
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf:
		define_register(program, code);
		return 0;
	}
	bad(program);
	return 0;
}

void xp_cfi_program_start(struct xp_cfi_program *program, const struct xp_cfi_common *common, const uint8_t *at,
			  const uint8_t *end, uint64_t place)
{
	program->common = common;
	program->code = (struct xp_dwarf_cursor){ at, end, common->is_bad };
	program->place = place;
	program->depth = 0;
	program->now = common->registers;
}

bool xp_cfi_program_next(struct xp_cfi_program *program)
{
	uint64_t distance = 0;

	while (!distance && !program->code.bad && program->code.at < program->code.end) {
		uint8_t code = *program->code.at++, operand = code & 0x3f;

		switch (code & 0xc0) {
		case DW_CFA_advance_loc:
			distance = operand;
			break;
		case DW_CFA_offset:
			save_at_cfa(program, operand, factored_operand(program, false));
			break;
		case DW_CFA_restore:
			restore(program, operand);
			break;
		default:
			distance = execute(program, code);
		}
	}
	program->place += distance * program->common->code_factor;
	return distance;
}

/* ---- what entries share ---- */

void xp_cfi_common_read(struct xp_cfi_common *common, const struct xp_cfi_cie *cie)
{
	struct xp_cfi_program program;

	memset(common, 0, sizeof(*common));
	common->code_factor = cie->code_factor;
	common->data_factor = cie->data_factor;
	common->is_signal = cie->is_signal;
	common->is_bad = cie->return_register != XP_CFI_REG_RA || !cie->code_factor || cie->code_factor > UINT16_MAX ||
			 cie->end - cie->at > CIE_BYTES_MAX;
	if (common->is_bad)
		return;
	xp_cfi_program_start(&program, common, cie->at, cie->end, 0);
	common->is_bad = xp_cfi_program_next(&program) || program.code.bad;
	common->registers = program.now;
}
