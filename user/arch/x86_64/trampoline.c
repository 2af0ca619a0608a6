// SPDX-License-Identifier: BSD-2-Clause
#include "arch/x86_64/trampoline.h"

#include <string.h>

#include "arch/x86_64/code_decode.h"

/* The code that is being made. */
struct output {
	uint8_t *bytes;
	size_t used;
	uint64_t at; /* address of the first byte */
	bool is_bad;
};

static void put(struct output *output, const void *bytes, size_t count)
{
	if (count > XP_TRAMPOLINE_BYTES_MAX - output->used) {
		output->is_bad = true;
		return;
	}
	memcpy(output->bytes + output->used, bytes, count);
	output->used += count;
}

#define PUT(output, ...) put(output, (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

static bool distance_to(uint64_t target, uint64_t next, int32_t *distance)
{
	*distance = (int32_t)(target - next);
	return (int64_t)(target - next) == *distance;
}

/* Puts a 4-byte operand that is relative to the end of the instruction, which is `rest` bytes after the operand. */
static void put_relative(struct output *output, uint64_t target, size_t rest)
{
	int32_t distance;

	if (!distance_to(target, output->at + output->used + sizeof(distance) + rest, &distance))
		output->is_bad = true;
	put(output, &distance, sizeof(distance));
}

static void put_jump(struct output *output, uint64_t target)
{
	PUT(output, 0xe9);
	put_relative(output, target, 0);
}

/* ---- sites ---- */

/* Flags: SF, ZF, AF, PF and CF in ah, OF in al. lahf and sahf take a cycle, popf twenty. */
static void put_record(struct output *output, uint64_t slot, uint32_t word)
{
	PUT(output, 0x4c, 0x89, 0x54, 0x24, 0x98); /* mov %r10,-104(%rsp) */
	PUT(output, 0x48, 0x89, 0x44, 0x24, 0x90); /* mov %rax,-112(%rsp) */
	PUT(output, 0x9f);			   /* lahf */
	PUT(output, 0x0f, 0x90, 0xc0);		   /* seto %al */
	PUT(output, 0x89, 0x44, 0x24, 0x88);	   /* mov %eax,-120(%rsp) */
	PUT(output, 0x41, 0xba);		   /* mov $word,%r10d */
	put(output, &word, sizeof(word));
	PUT(output, 0xe8); /* call slot */
	put_relative(output, slot, 0);
	PUT(output, 0x8b, 0x44, 0x24, 0x88);	   /* mov -120(%rsp),%eax */
	PUT(output, 0x04, 0x7f);		   /* add $0x7f,%al: overflows if OF was set */
	PUT(output, 0x9e);			   /* sahf */
	PUT(output, 0x48, 0x8b, 0x44, 0x24, 0x90); /* mov -112(%rsp),%rax */
	PUT(output, 0x4c, 0x8b, 0x54, 0x24, 0x98); /* mov -104(%rsp),%r10 */
}

/* Returns the condition code of a jcc, from the low nibble of the opcode 0x7X or 0x0f 0x8X after prefixes. */
static uint8_t condition_of(const uint8_t *code, const struct xp_code *decoded)
{
	const uint8_t *end = code + decoded->bytes;

	return decoded->bytes >= 6 && end[-6] == 0x0f && (end[-5] & 0xf0) == 0x80 ? end[-5] & 15 : end[-2] & 15;
}

/* Puts code that skips the jump and the record of the site if the condition does not hold. */
static void put_conditional_tail(struct output *output, uint64_t slot, uint32_t word, uint8_t condition,
				 uint64_t target)
{
	size_t start;

	PUT(output, (uint8_t)(0x70 | (condition ^ 1)), 0);
	start = output->used;
	put_record(output, slot, word);
	put_jump(output, target);
	if (!output->is_bad)
		output->bytes[start - 1] = (uint8_t)(output->used - start);
}

/* ---- instructions ---- */

/* push imm32, then movl to the upper half: changes no register and no flag. */
static void put_call(struct output *output, uint64_t target, uint64_t return_address)
{
	uint32_t low = (uint32_t)return_address, high = (uint32_t)(return_address >> 32);

	PUT(output, 0x68);
	put(output, &low, sizeof(low));
	PUT(output, 0xc7, 0x44, 0x24, 0x04);
	put(output, &high, sizeof(high));
	put_jump(output, target);
}

static void put_copy(struct output *output, const uint8_t *code, const struct xp_code *decoded)
{
	size_t behind = decoded->rip_at + sizeof(int32_t);

	if (!decoded->rip_at) {
		put(output, code, decoded->bytes);
		return;
	}
	put(output, code, decoded->rip_at);
	put_relative(output, decoded->address, decoded->bytes - behind);
	put(output, code + behind, decoded->bytes - behind);
}

static void put_instruction(struct output *output, const uint8_t *code, const struct xp_code *decoded, uint64_t next)
{
	switch (decoded->kind) {
	case XP_CODE_JUMP:
		put_jump(output, decoded->target);
		break;
	case XP_CODE_BRANCH:
		PUT(output, 0x0f, (uint8_t)(0x80 | condition_of(code, decoded)));
		put_relative(output, decoded->target, 0);
		break;
	case XP_CODE_CALL:
		put_call(output, decoded->target, next);
		break;
	default:
		put_copy(output, code, decoded);
	}
}

static bool ends_flow(enum xp_code_kind kind)
{
	return kind == XP_CODE_RET || kind == XP_CODE_JUMP || kind == XP_CODE_INDIRECT || kind == XP_CODE_CALL;
}

static bool can_move(enum xp_code_kind kind)
{
	return kind == XP_CODE_PLAIN || kind == XP_CODE_NOP || kind == XP_CODE_BRANCH || ends_flow(kind);
}

size_t xp_trampoline_encode(const struct xp_trampoline *trampoline, uint64_t at, uint8_t bytes[XP_TRAMPOLINE_BYTES_MAX])
{
	struct output output = { .bytes = bytes, .at = at };
	size_t offset = 0, site = 0;

	while (offset < trampoline->bytes && !output.is_bad) {
		const uint8_t *code = trampoline->code + offset;
		uint64_t address = trampoline->address + offset;
		bool is_conditional = false;
		struct xp_code decoded;

		if (!xp_code_decode(code, trampoline->bytes - offset, address, &decoded) || !can_move(decoded.kind))
			return 0;
		for (; site < trampoline->site_count && trampoline->sites[site].offset == offset; site++) {
			const struct xp_trampoline_site *one = &trampoline->sites[site];
			uint64_t slot = trampoline->slots[one->kind != XP_SITE_ENTRY];

			is_conditional = one->kind == XP_SITE_CONDITIONAL_TAIL;
			if (is_conditional)
				put_conditional_tail(&output, slot, one->word, condition_of(code, &decoded),
						     decoded.target);
			else
				put_record(&output, slot, one->word);
		}
		if (!is_conditional)
			put_instruction(&output, code, &decoded, address + decoded.bytes);
		offset += decoded.bytes;
		if (ends_flow(decoded.kind))
			return output.is_bad || site < trampoline->site_count ? 0 : output.used;
	}
	put_jump(&output, trampoline->address + offset);
	return output.is_bad || site < trampoline->site_count ? 0 : output.used;
}

bool xp_trampoline_jump(uint64_t from, uint64_t to, uint8_t bytes[5])
{
	int32_t distance;

	if (!distance_to(to, from + 5, &distance))
		return false;
	bytes[0] = 0xe9;
	memcpy(bytes + 1, &distance, sizeof(distance));
	return true;
}

bool xp_trampoline_short_jump(uint64_t from, uint64_t to, uint8_t bytes[2])
{
	int64_t distance = (int64_t)(to - (from + 2));

	bytes[0] = 0xeb;
	bytes[1] = (uint8_t)distance;
	return distance >= INT8_MIN && distance <= INT8_MAX;
}
