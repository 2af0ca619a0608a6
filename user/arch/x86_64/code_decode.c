// SPDX-License-Identifier: BSD-2-Clause
#include "arch/x86_64/code_decode.h"

#include <Zydis/Zydis.h>
#include <string.h>

#define REGISTER_MOD 3
#define RIP_RELATIVE_RM 5
#define SIB_FOLLOWS_RM 4
#define SIB_RSP 4
#define SIB_NO_INDEX 4
#define SIB_NO_BASE 5

static void make_decoder(ZydisDecoder *decoder)
{
	ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

static enum xp_code_kind kind_of_branch(const ZydisDecodedInstruction *from)
{
	bool is_direct = from->raw.imm[0].is_relative;

	/* AMD and Intel disagree on the length of a near branch with this prefix, unless REX.W overrides it (x86-64
	 * TLS). */
	if (from->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE)
		return from->raw.rex.W ? XP_CODE_FIXED : XP_CODE_NONE;
	if (from->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return XP_CODE_FIXED;
	switch (from->meta.category) {
	case ZYDIS_CATEGORY_UNCOND_BR:
		return is_direct ? XP_CODE_JUMP : XP_CODE_INDIRECT;
	case ZYDIS_CATEGORY_CALL:
		return is_direct ? XP_CODE_CALL : XP_CODE_FIXED;
	default:
		return (from->opcode & 0xf0) == 0x70 || ((from->opcode & 0xf0) == 0x80 && from->opcode_map)
			   ? XP_CODE_BRANCH
			   : XP_CODE_FIXED;
	}
}

static enum xp_code_kind kind_of(const ZydisDecodedInstruction *from)
{
	switch (from->mnemonic) {
	case ZYDIS_MNEMONIC_ENDBR64:
		return XP_CODE_ENDBR;
	case ZYDIS_MNEMONIC_INT3:
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
		return XP_CODE_STOP;
	case ZYDIS_MNEMONIC_RET:
		return from->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR || from->opcode < 0xc2 || from->opcode > 0xc3
			   ? XP_CODE_FIXED
			   : XP_CODE_RET;
	case ZYDIS_MNEMONIC_XBEGIN:
		return XP_CODE_FIXED;
	default:
		break;
	}
	switch (from->meta.category) {
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_COND_BR:
	case ZYDIS_CATEGORY_CALL:
		return kind_of_branch(from);
	case ZYDIS_CATEGORY_RET:
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_SYSRET:
	case ZYDIS_CATEGORY_INTERRUPT:
		return XP_CODE_FIXED;
	case ZYDIS_CATEGORY_NOP:
	case ZYDIS_CATEGORY_WIDENOP:
		return XP_CODE_NOP;
	default:
		return XP_CODE_PLAIN;
	}
}

static bool is_rip_relative(const ZydisDecodedInstruction *from)
{
	return from->attributes & ZYDIS_ATTRIB_HAS_MODRM && from->raw.modrm.mod == 0 &&
	       from->raw.modrm.rm == RIP_RELATIVE_RM && from->raw.disp.size == 32;
}

/* Returns whether the instruction reads or writes memory that may be unreadable or after the end of a file. */
static bool has_unsafe_memory(const ZydisDecodedInstruction *from)
{
	bool is_stack = from->raw.modrm.rm == SIB_FOLLOWS_RM && from->raw.sib.base == SIB_RSP && !from->raw.rex.B &&
			from->raw.sib.index == SIB_NO_INDEX && !from->raw.rex.X;
	/* %fs:offset is a variable of the thread. */
	bool is_thread = from->attributes & ZYDIS_ATTRIB_HAS_SEGMENT_FS && from->raw.modrm.mod == 0 &&
			 from->raw.modrm.rm == SIB_FOLLOWS_RM && from->raw.sib.base == SIB_NO_BASE &&
			 from->raw.sib.index == SIB_NO_INDEX && !from->raw.rex.X;

	return from->attributes & ZYDIS_ATTRIB_HAS_MODRM && from->raw.modrm.mod != REGISTER_MOD && !is_stack &&
	       !is_thread && !is_rip_relative(from) && from->mnemonic != ZYDIS_MNEMONIC_LEA;
}

/* Returns false only for instructions at the start and end of compiled functions, which are known not to fault. */
static bool may_fault(const ZydisDecodedInstruction *from)
{
	switch (from->meta.category) {
	case ZYDIS_CATEGORY_BINARY:
		return from->mnemonic == ZYDIS_MNEMONIC_DIV || from->mnemonic == ZYDIS_MNEMONIC_IDIV ||
		       has_unsafe_memory(from);
	case ZYDIS_CATEGORY_NOP:
	case ZYDIS_CATEGORY_WIDENOP:
		return false;
	case ZYDIS_CATEGORY_BITBYTE:
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_CET:
	case ZYDIS_CATEGORY_CMOV:
	case ZYDIS_CATEGORY_COND_BR:
	case ZYDIS_CATEGORY_DATAXFER:
	case ZYDIS_CATEGORY_LOGICAL:
	case ZYDIS_CATEGORY_LOGICAL_FP:
	case ZYDIS_CATEGORY_MISC:
	case ZYDIS_CATEGORY_POP:
	case ZYDIS_CATEGORY_PUSH:
	case ZYDIS_CATEGORY_RET:
	case ZYDIS_CATEGORY_ROTATE:
	case ZYDIS_CATEGORY_SETCC:
	case ZYDIS_CATEGORY_SHIFT:
	case ZYDIS_CATEGORY_UNCOND_BR:
		return has_unsafe_memory(from);
	default:
		return true;
	}
}

bool xp_code_decode(const uint8_t *code, size_t size, uint64_t at, struct xp_code *decoded)
{
	ZydisDecodedInstruction from;
	ZydisDecoder decoder;
	uint64_t next;

	memset(decoded, 0, sizeof(*decoded));
	make_decoder(&decoder);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code, size, &from)))
		return false;
	decoded->kind = kind_of(&from);
	decoded->bytes = from.length;
	decoded->may_fault = may_fault(&from);
	next = at + from.length;
	if (from.raw.imm[0].is_relative) {
		decoded->has_target = true;
		decoded->target = next + (uint64_t)from.raw.imm[0].value.s;
	} else if (from.raw.imm[0].size >= 32) {
		decoded->constant = from.raw.imm[0].value.u;
	}
	if (!is_rip_relative(&from))
		return decoded->kind != XP_CODE_NONE;
	decoded->address = next + (uint64_t)from.raw.disp.value;
	decoded->rip_at = from.raw.disp.offset;
	decoded->is_lea = from.mnemonic == ZYDIS_MNEMONIC_LEA;
	if (decoded->kind == XP_CODE_NOP)
		decoded->rip_at = 0;
	else if (from.address_width != 64) /* relative to eip */
		decoded->kind = XP_CODE_FIXED;
	return decoded->kind != XP_CODE_NONE;
}

/* ---- operands ---- */

static uint8_t number_of(ZydisRegister reg)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	return whole >= ZYDIS_REGISTER_RAX && whole <= ZYDIS_REGISTER_R15 ? (uint8_t)(whole - ZYDIS_REGISTER_RAX)
									  : XP_CODE_NO_REG;
}

static bool place_of(const ZydisDecodedOperand *operand, struct xp_code_place *place)
{
	*place = (struct xp_code_place){ .reg = XP_CODE_NO_REG, .index = XP_CODE_NO_REG };
	if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER) {
		place->reg = number_of(operand->reg.value);
		return place->reg != XP_CODE_NO_REG;
	}
	if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY || operand->mem.base == ZYDIS_REGISTER_RIP)
		return false;
	place->is_memory = true;
	place->reg = number_of(operand->mem.base);
	place->index = number_of(operand->mem.index);
	place->scale = operand->mem.scale;
	place->offset = operand->mem.disp.value;
	return true;
}

static bool decode_full(const uint8_t *code, size_t size, ZydisDecodedInstruction *from,
			ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT])
{
	ZydisDecoder decoder;

	make_decoder(&decoder);
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, size, from, operands));
}

bool xp_code_jump_place(const uint8_t *code, size_t size, struct xp_code_place *place)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction from;

	return decode_full(code, size, &from, operands) && from.operand_count && place_of(&operands[0], place);
}

enum xp_code_write xp_code_writes(const uint8_t *code, size_t size, uint8_t reg, struct xp_code_place *place)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction from;

	if (!decode_full(code, size, &from, operands))
		return XP_CODE_WRITES_ELSE;
	for (size_t i = 0; i < from.operand_count; i++) {
		if (operands[i].type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) || number_of(operands[i].reg.value) != reg)
			continue;
		if (from.mnemonic == ZYDIS_MNEMONIC_ADD && i == 0)
			return XP_CODE_WRITES_SUM;
		if (from.mnemonic == ZYDIS_MNEMONIC_MOV && place_of(&operands[1], place) && place->is_memory)
			return XP_CODE_WRITES_LOAD;
		return XP_CODE_WRITES_ELSE;
	}
	return XP_CODE_WRITES_NOT;
}
