// SPDX-License-Identifier: BSD-2-Clause
#include "arch/x86_64/sled_bytes.h"

#include <string.h>

#include "base/util.h"

enum { RDX = 2, RSI = 6, RDI = 7 };

static const char *const kind_names[XP_SLED_KINDS] = {
	[XP_SLED_ENTRY] = "entry",     [XP_SLED_EXIT] = "exit",		  [XP_SLED_TAIL_EXIT] = "tail",
	[XP_SLED_ENTRY_ARGS] = "args", [XP_SLED_CUSTOM_EVENT] = "custom", [XP_SLED_TYPED_EVENT] = "typed",
};

static const uint8_t event_registers[] = { RDI, RSI, RDX };

const char *xp_sled_kind_name(enum xp_sled_kind kind)
{
	return (unsigned int)kind < XP_SLED_KINDS ? kind_names[kind] : "unknown";
}

size_t xp_sled_bytes(enum xp_sled_kind kind)
{
	switch (kind) {
	case XP_SLED_CUSTOM_EVENT:
		return 17;
	case XP_SLED_TYPED_EVENT:
		return 22;
	default:
		return 11;
	}
}

/*
 * Compares only the first instruction. XRay's runtime restores only this instruction when it unpatches; the bytes after
 * it remain those of the call. Custom events of map version 0 (jmp +20) are not supported.
 */
bool xp_sled_intact(enum xp_sled_kind kind, const uint8_t *bytes)
{
	switch (kind) {
	case XP_SLED_ENTRY:
	case XP_SLED_TAIL_EXIT:
	case XP_SLED_ENTRY_ARGS:
		return bytes[0] == 0xeb && bytes[1] == 0x09;
	case XP_SLED_EXIT:
		return bytes[0] == 0xc3;
	case XP_SLED_CUSTOM_EVENT:
		return bytes[0] == 0xeb && bytes[1] == 0x0f;
	case XP_SLED_TYPED_EVENT:
		return bytes[0] == 0xeb && bytes[1] == 0x14;
	default:
		return false;
	}
}

size_t xp_sled_unused(const uint8_t *bytes)
{
	return bytes[5] == 0x84 && bytes[6] == 0x00 ? 5 : 0;
}

/* push %rdx, %rsi, %rdi: one byte each. */
static uint8_t push_opcode(uint8_t reg)
{
	return 0x50 + reg;
}

/* mov %source,%destination between 64-bit registers: REX.W [+ REX.R], 89, modrm. */
static bool decode_mov(const uint8_t *bytes, uint8_t destination, uint8_t *source)
{
	if ((bytes[0] & 0xfb) != 0x48 || bytes[1] != 0x89 || (bytes[2] & 0xc7) != (0xc0 | destination))
		return false;
	*source = (bytes[2] >> 3 & 7) | (bytes[0] & 4) << 1;
	return true;
}

/*
 * LLVM first goes through the operands and pushes each register that it is about to overwrite. If the operand is
 * already in place, it emits a 4-byte nop instead. Then it moves the other operands into place. A probe on the first
 * byte must read the source registers, because the moves can overwrite each other's sources.
 */
bool xp_sled_operands(enum xp_sled_kind kind, const uint8_t *bytes, uint8_t registers[3])
{
	static const uint8_t nop4[] = { 0x0f, 0x1f, 0x40, 0x08 };
	size_t count = kind == XP_SLED_TYPED_EVENT ? 3 : 2;
	bool moved[XP_ARRAY_SIZE(event_registers)] = { false };
	size_t at = 2;

	memset(registers, 0, 3);
	for (size_t i = 0; i < count; i++) {
		registers[i] = event_registers[i];
		moved[i] = bytes[at] == push_opcode(registers[i]);
		if (moved[i]) {
			at++;
			continue;
		}
		if (memcmp(bytes + at, nop4, sizeof(nop4)))
			return false;
		at += sizeof(nop4);
	}
	for (size_t i = 0; i < count; i++) {
		if (!moved[i])
			continue;
		if (!decode_mov(bytes + at, event_registers[i], &registers[i]))
			return false;
		at += 3;
	}
	return bytes[at] == 0xe8;
}

bool xp_sled_condition(const uint8_t *bytes, uint8_t *condition)
{
	const uint8_t *jump = bytes + xp_sled_bytes(XP_SLED_TAIL_EXIT);

	if ((jump[0] & 0xf0) == 0x70) {
		*condition = jump[0] & 0x0f;
		return true;
	}
	if (jump[0] == 0x0f && (jump[1] & 0xf0) == 0x80) {
		*condition = jump[1] & 0x0f;
		return true;
	}
	return false;
}
