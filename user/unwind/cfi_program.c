// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_program.h"

#include <dwarf.h>
#include <string.h>

/* ---- numbers ---- */

static bool take_unsigned(struct xp_cfi_expression *from, uint64_t *value)
{
	unsigned int shift = 0;

	*value = 0;
	while (from->at < from->end) {
		uint8_t byte = *from->at++;

		if (shift < 64)
			*value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

static bool take_signed(struct xp_cfi_expression *from, int64_t *value)
{
	const uint8_t *start = from->at;
	uint64_t bits;
	size_t bit_count;

	if (!take_unsigned(from, &bits))
		return false;
	bit_count = 7 * (size_t)(from->at - start);
	if (bit_count < 64 && from->at[-1] & 0x40)
		bits |= ~0ull << bit_count;
	*value = (int64_t)bits;
	return true;
}

bool xp_cfi_parse_sum(struct xp_cfi_expression *expression, uint64_t *reg, int64_t *offset)
{
	struct xp_cfi_expression rest = *expression;
	uint8_t operation;

	if (rest.at >= rest.end)
		return false;
	operation = *rest.at++;
	if (operation >= DW_OP_breg0 && operation <= DW_OP_breg31)
		*reg = operation - DW_OP_breg0;
	else if (operation != DW_OP_bregx || !take_unsigned(&rest, reg))
		return false;
	if (!take_signed(&rest, offset))
		return false;
	*expression = rest;
	return true;
}

bool xp_cfi_parse_plus(struct xp_cfi_expression *expression, int64_t *offset)
{
	struct xp_cfi_expression rest = *expression;
	uint64_t value;

	if (rest.at >= rest.end || *rest.at++ != DW_OP_plus_uconst || !take_unsigned(&rest, &value) ||
	    value > INT32_MAX)
		return false;
	*offset = (int64_t)value;
	*expression = rest;
	return true;
}

/* ---- operands ---- */

static uint64_t bad(struct xp_cfi_program *program)
{
	program->is_bad = true;
	program->at = program->end;
	return 0;
}

static uint64_t fixed_operand(struct xp_cfi_program *program, size_t bytes)
{
	uint64_t value = 0;

	if ((size_t)(program->end - program->at) < bytes)
		return bad(program);
	memcpy(&value, program->at, bytes);
	program->at += bytes;
	return value;
}

static uint64_t unsigned_operand(struct xp_cfi_program *program)
{
	struct xp_cfi_expression rest = { program->at, program->end };
	uint64_t value;

	if (!take_unsigned(&rest, &value))
		return bad(program);
	program->at = rest.at;
	return value;
}

/*
 * Reads an operand and multiplies it by the data factor. That applies to all signed operands, but of the unsigned ones
 * only to DW_CFA_offset.
 */
static int64_t factored_operand(struct xp_cfi_program *program, bool is_signed)
{
	struct xp_cfi_expression rest = { program->at, program->end };
	uint64_t bits;
	int64_t value;

	if (is_signed ? !take_signed(&rest, &value) : !take_unsigned(&rest, &bits))
		return (int64_t)bad(program);
	program->at = rest.at;
	return (int64_t)((is_signed ? (uint64_t)value : bits) * (uint64_t)program->common->data_factor);
}

static struct xp_cfi_expression block_operand(struct xp_cfi_program *program)
{
	uint64_t bytes = unsigned_operand(program);
	struct xp_cfi_expression block = { program->at, program->at };

	if (bytes > (uint64_t)(program->end - program->at))
		bad(program);
	else
		program->at = block.end = block.at + bytes;
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
static struct xp_cfi_saved saved_by(struct xp_cfi_expression place)
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
		now->cfa_reg = unsigned_operand(program);
	if (code == DW_CFA_def_cfa || code == DW_CFA_def_cfa_offset)
		now->cfa_offset = (int64_t)unsigned_operand(program);
	else if (code != DW_CFA_def_cfa_register)
		now->cfa_offset = factored_operand(program, true);
	now->has_cfa = true;
	now->cfa = (struct xp_cfi_expression){ 0 };
}

/* Executes an instruction about one register, which is its first operand. */
static void define_register(struct xp_cfi_program *program, uint8_t code)
{
	uint64_t reg = unsigned_operand(program);

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
		unsigned_operand(program);
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
		return fixed_operand(program, 1);
	case DW_CFA_advance_loc2:
		return fixed_operand(program, 2);
	case DW_CFA_advance_loc4:
		return fixed_operand(program, 4);
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
		return unsigned_operand(program), 0;
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
	return bad(program);
}

void xp_cfi_program_start(struct xp_cfi_program *program, const struct xp_cfi_common *common, const uint8_t *at,
			  const uint8_t *end, uint64_t place)
{
	program->common = common;
	program->at = at;
	program->end = end;
	program->place = place;
	program->is_bad = common->is_bad;
	program->depth = 0;
	program->now = common->registers;
}

bool xp_cfi_program_next(struct xp_cfi_program *program)
{
	uint64_t distance = 0;

	while (!distance && program->at < program->end) {
		uint8_t code = *program->at++, operand = code & 0x3f;

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

void xp_cfi_common_read(struct xp_cfi_common *common, const Dwarf_CIE *cie)
{
	struct xp_cfi_program program;

	memset(common, 0, sizeof(*common));
	common->code_factor = cie->code_alignment_factor;
	common->data_factor = cie->data_alignment_factor;
	common->is_signal = cie->augmentation[0] == 'z' && strchr(cie->augmentation, 'S');
	xp_cfi_program_start(&program, common, cie->initial_instructions, cie->initial_instructions_end, 0);
	common->is_bad = xp_cfi_program_next(&program) || program.is_bad ||
			 cie->return_address_register != XP_CFI_REG_RA || !common->code_factor ||
			 common->code_factor > UINT16_MAX;
	common->registers = program.now;
}
