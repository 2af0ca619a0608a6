/* SPDX-License-Identifier: BSD-2-Clause */
#include "arch/x86_64/code_shapes.h"

#include <string.h>

#include "base/util.h"

static bool is_at(const uint8_t *code, const char *bytes, size_t count)
{
	return !memcmp(code, bytes, count);
}

#define IS_AT(code, bytes) is_at(code, bytes, sizeof(bytes) - 1)

#define ENDBR64 "\xf3\x0f\x1e\xfa"

/* ---- PLT entries ---- */

bool xp_plt_is_first(const uint8_t code[XP_PLT_ENTRY_BYTES])
{
	return IS_AT(code, "\xff\x35"); /* push there(%rip) */
}

uint8_t xp_plt_pushed_at(const uint8_t code[XP_PLT_ENTRY_BYTES])
{
	if (IS_AT(code, "\xff\x25") && code[6] == 0x68) /* jmp *there(%rip); push $number */
		return 11;
	return IS_AT(code, ENDBR64 "\x68") ? 9 : 0;
}

/* jmp *there(%rip), after endbr64, bnd, both or neither. */
bool xp_plt_is_jump(const uint8_t code[XP_PLT_ENTRY_BYTES])
{
	if (IS_AT(code, ENDBR64))
		code += 4;
	if (*code == 0xf2)
		code++;
	return IS_AT(code, "\xff\x25");
}

/* ---- other code ---- */

/* Searches by the rarest byte; the setup cost of memmem(3) is too high for many short gaps. */
const uint8_t *xp_signal_return_find(const uint8_t *code, size_t bytes)
{
	static const uint8_t wanted[XP_SIGNAL_RETURN_BYTES] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	enum { RAREST = 1 };
	const uint8_t *at = code + RAREST, *end;

	if (bytes < sizeof(wanted))
		return NULL;
	end = code + bytes - (sizeof(wanted) - 1) + RAREST;
	while (at < end && (at = memchr(at, wanted[RAREST], (size_t)(end - at)))) {
		if (!memcmp(at - RAREST, wanted, sizeof(wanted)))
			return at - RAREST;
		at++;
	}
	return NULL;
}

size_t xp_init_reserved_at(const uint8_t first[XP_INIT_FIRST_BYTES], const uint8_t last[XP_INIT_LAST_BYTES],
			   uint64_t section_bytes)
{
	static const struct {
		const char *reserve;
		const char *let_go;
	} ways[] = {
		{ "\x48\x83\xec\x08", "\x48\x83\xc4\x08\xc3" }, /* sub $8,%rsp; add $8,%rsp; ret */
		{ "\x50", "\x58\xc3" },				/* musl: push %rax; pop %rax; ret */
	};
	size_t at = IS_AT(first, ENDBR64) ? 4 : 0;

	for (size_t i = 0; i < XP_ARRAY_SIZE(ways); i++) {
		size_t head = strlen(ways[i].reserve), tail = strlen(ways[i].let_go);

		if (at + head + tail <= section_bytes && is_at(first + at, ways[i].reserve, head) &&
		    is_at(last + XP_INIT_LAST_BYTES - tail, ways[i].let_go, tail))
			return at + head;
	}
	return 0;
}

/*
 * syscall; test %rax,%rax; jl error; je child; ret. Then, covered by an entry again, the child: xor %ebp,%ebp; and
 * $-16,%rsp.
 */
size_t xp_clone3_bytes(const uint8_t code[XP_CLONE3_BYTES])
{
	size_t at = 5;

	if (!IS_AT(code, "\x0f\x05\x48\x85\xc0"))
		return 0;
	if (code[at] == 0x7c)
		at += 2;
	else if (IS_AT(code + at, "\x0f\x8c"))
		at += 6;
	else
		return 0;
	return IS_AT(code + at, "\x74\x01\xc3\x31\xed\x48\x83\xe4") ? at + 3 : 0;
}

/* push rcx, r11, rax; mov; syscall; pop rax, r11, rcx; ret */
unsigned int xp_uprobe_trampoline_words(uint64_t offset)
{
	static const uint8_t words[] = { 1, 2, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3, 2, 1 };

	return offset < sizeof(words) ? words[offset] : 0;
}
