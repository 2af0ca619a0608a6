// SPDX-License-Identifier: BSD-2-Clause
#include "arch/x86_64/patch_bytes.h"

#include <string.h>

#include "arch/x86_64/sled_bytes.h"

enum {
	CALL = 0xe8,
	JUMP = 0xe9,
	PUSH_IMM32 = 0x68,
	PUSH_IMM8 = 0x6a,
};

static const uint8_t mov_r10d[] = { 0x41, 0xba };
/* lea 0x10(%rsp),%rsp: pops the two words. */
static const uint8_t drop_words[] = { 0x48, 0x8d, 0x64, 0x24, 0x10 };

/* Offset of the call or jump in a patched sled. */
static size_t branch_at(enum xp_sled_kind kind)
{
	switch (kind) {
	case XP_SLED_CUSTOM_EVENT:
		return 7;
	case XP_SLED_TYPED_EVENT:
		return 10;
	default:
		return 6;
	}
}

#define BRANCH_BYTES 5

enum xp_stub_slot xp_patch_slot(enum xp_sled_kind kind, bool args)
{
	switch (kind) {
	case XP_SLED_ENTRY:
		return args ? XP_STUB_ARGS : XP_STUB_CALL;
	case XP_SLED_ENTRY_ARGS:
		return XP_STUB_ARGS;
	case XP_SLED_CUSTOM_EVENT:
		return XP_STUB_CUSTOM;
	case XP_SLED_TYPED_EVENT:
		return XP_STUB_TYPED;
	default:
		return XP_STUB_CALL;
	}
}

static void put32(uint8_t *bytes, uint32_t value)
{
	memcpy(bytes, &value, sizeof(value));
}

static bool put_branch(enum xp_sled_kind kind, uint64_t address, uint64_t slot, uint8_t *bytes)
{
	size_t branch = branch_at(kind);
	int64_t distance = (int64_t)(slot - (address + branch + BRANCH_BYTES));

	bytes[branch] = kind == XP_SLED_EXIT ? JUMP : CALL;
	put32(bytes + branch + 1, (uint32_t)distance);
	return distance == (int32_t)distance;
}

static void put_word(uint32_t word, uint8_t *bytes)
{
	memcpy(bytes, mov_r10d, sizeof(mov_r10d));
	put32(bytes + sizeof(mov_r10d), word);
}

static uint32_t operands_of(const struct xp_sled *sled)
{
	return sled->operands[0] | (uint32_t)sled->operands[1] << 4 | (uint32_t)sled->operands[2] << 8;
}

size_t xp_patch_encode(const struct xp_sled *sled, uint32_t fn, uint64_t address, uint64_t slot,
		       uint8_t bytes[XP_SLED_BYTES_MAX])
{
	enum xp_sled_kind kind = (enum xp_sled_kind)sled->kind;

	switch (kind) {
	case XP_SLED_CUSTOM_EVENT:
		bytes[0] = PUSH_IMM32;
		put32(bytes + 1, fn);
		bytes[5] = PUSH_IMM8;
		bytes[6] = (uint8_t)operands_of(sled);
		memcpy(bytes + 12, drop_words, sizeof(drop_words));
		break;
	case XP_SLED_TYPED_EVENT:
		bytes[0] = PUSH_IMM32;
		put32(bytes + 1, fn);
		bytes[5] = PUSH_IMM32;
		put32(bytes + 6, operands_of(sled));
		memcpy(bytes + 15, drop_words, sizeof(drop_words));
		bytes[20] = 0x66; /* 2-byte nop */
		bytes[21] = 0x90;
		break;
	default:
		put_word(xp_event_word(fn, (enum xp_event_kind)kind), bytes);
		break;
	}
	return put_branch(kind, address, slot, bytes) ? xp_sled_bytes(kind) : 0;
}

size_t xp_patch_encode_count(const struct xp_sled *sled, uint32_t counter, uint64_t address, uint64_t stub,
			     uint8_t bytes[XP_SLED_BYTES_MAX])
{
	enum xp_sled_kind kind = (enum xp_sled_kind)sled->kind;

	put_word(xp_event_word(4 * counter, XP_EVENT_NONE), bytes);
	return put_branch(kind, address, stub + XP_STUB_COUNT, bytes) ? xp_sled_bytes(kind) : 0;
}

bool xp_patch_decode(enum xp_sled_kind kind, const uint8_t *bytes, uint64_t address, uint64_t *slot)
{
	size_t branch = branch_at(kind);
	int32_t distance;

	if (kind == XP_SLED_CUSTOM_EVENT || kind == XP_SLED_TYPED_EVENT) {
		if (bytes[0] != PUSH_IMM32 ||
		    memcmp(bytes + branch + BRANCH_BYTES, drop_words, sizeof(drop_words)) != 0)
			return false;
	} else if (memcmp(bytes, mov_r10d, sizeof(mov_r10d)) != 0) {
		return false;
	}
	if (bytes[branch] != (kind == XP_SLED_EXIT ? JUMP : CALL))
		return false;
	memcpy(&distance, bytes + branch + 1, sizeof(distance));
	*slot = address + branch + BRANCH_BYTES + (uint64_t)(int64_t)distance;
	return true;
}

size_t xp_patch_head(enum xp_sled_kind kind, uint8_t bytes[2])
{
	bytes[0] = 0xeb; /* jmp over the rest of the sled */
	switch (kind) {
	case XP_SLED_EXIT:
		bytes[0] = 0xc3;
		return 1;
	case XP_SLED_CUSTOM_EVENT:
		bytes[1] = 0x0f;
		return 2;
	case XP_SLED_TYPED_EVENT:
		bytes[1] = 0x14;
		return 2;
	default:
		bytes[1] = 0x09;
		return 2;
	}
}

bool xp_patch_decode_remains(enum xp_sled_kind kind, const uint8_t *bytes, uint64_t address, uint64_t *slot)
{
	uint8_t patched[XP_SLED_BYTES_MAX];

	if (!xp_sled_intact(kind, bytes))
		return false;
	memcpy(patched, bytes, xp_sled_bytes(kind));
	if (kind == XP_SLED_CUSTOM_EVENT || kind == XP_SLED_TYPED_EVENT)
		patched[0] = PUSH_IMM32;
	else
		memcpy(patched, mov_r10d, sizeof(mov_r10d));
	return xp_patch_decode(kind, patched, address, slot);
}
