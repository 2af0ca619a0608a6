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

/* ---- nops ---- */

static bool is_prefix(uint8_t byte)
{
	return memchr("\x26\x2e\x36\x3e\x64\x65\x66\xf2\xf3", byte, 9) || (byte & 0xf0) == 0x40; /* REX */
}

/* Number of bytes of an operand: modrm, and the SIB byte and displacement that it announces. */
static size_t operand_bytes(const uint8_t *code)
{
	uint8_t mod = code[0] >> 6, rm = code[0] & 7;
	bool sib = mod != 3 && rm == 4;

	if (mod == 0)
		return 1u + sib + ((sib ? code[1] & 7 : rm) == 5 ? 4u : 0u);
	return 1u + sib + (mod == 1 ? 1u : mod == 2 ? 4u : 0u);
}

#define NOP_BYTES_MAX 15

/* Returns the length of the multi-byte nop at code[NOP_BYTES_MAX], or 0 if there is no such nop. */
static size_t long_nop_bytes(const uint8_t code[NOP_BYTES_MAX])
{
	size_t at = 0, end;

	if (IS_AT(code, ENDBR64))
		return sizeof(ENDBR64) - 1;
	while (at < NOP_BYTES_MAX && is_prefix(code[at]))
		at++;
	if (at + 4 > NOP_BYTES_MAX)
		return 0;
	if (code[at] == 0x90) /* f3 90: pause. 41 90: xchg */
		return at && code[at - 1] == 0x66 && !memchr(code, 0xf3, at) ? at + 1 : 0;
	if (!IS_AT(code + at, "\x0f\x1f"))
		return 0;
	end = at + 2 + operand_bytes(code + at + 2);
	return end <= NOP_BYTES_MAX ? end : 0;
}

size_t xp_long_nops_bytes(const uint8_t *code, size_t bytes)
{
	size_t at = 0, nop;

	do {
		uint8_t window[NOP_BYTES_MAX] = { 0 };

		memcpy(window, code + at, XP_MIN(bytes - at, sizeof(window)));
		nop = long_nop_bytes(window);
		at = XP_MIN(at + nop, bytes);
	} while (nop && at < bytes);
	return at;
}

/* ---- other code ---- */

/* Searches for the rarest byte; the setup cost of memmem(3) is too high for many short gaps. */
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

/* syscall; test %rax,%rax; jl error; je child; ret. The child has an unwind entry: xor %ebp,%ebp; and $-16,%rsp. */
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

bool xp_go_is_exit(const uint8_t code[XP_GO_EXIT_BYTES])
{
	return code[0] == 0x90 && code[1] == 0xe8 && code[6] == 0x90;
}

/* Bytes of mov 0x38(%reg),%rsp, or of mov 0x38(%rdx),%rbx; mov %rbx,%rsp; 0 if this is neither. */
static size_t go_load_bytes(const uint8_t *code, size_t bytes)
{
	if (bytes >= 4 && (code[0] | 1) == 0x49 && code[1] == 0x8b && (code[2] & 0xf8) == 0x60 && code[2] != 0x64 &&
	    code[3] == 0x38)
		return 4;
	return bytes >= 7 && IS_AT(code, "\x48\x8b\x5a\x38\x48\x89\xdc") ? 7 : 0;
}

/*
 * Returns the bytes of one of these calls: call *%r12, *%rdi or *%rax; the first of two calls (newstack, then abort in
 * case newstack returns); a call before mov 0x8(%rsp),%rdi (asmcgocall_landingpad, since Go 1.24).
 */
static size_t go_call_bytes(const uint8_t *code, size_t bytes)
{
	if (bytes >= 3 && IS_AT(code, "\x41\xff\xd4"))
		return 3;
	if (bytes >= 2 && (IS_AT(code, "\xff\xd7") || IS_AT(code, "\xff\xd0")))
		return 2;
	if (bytes >= 10 && code[0] == 0xe8 && IS_AT(code + 5, "\x48\x8b\x7c\x24\x08"))
		return 5;
	return bytes >= 6 && code[0] == 0xe8 && code[5] == 0xe8 ? 5 : 0;
}

/* Between the switch and the call, the code stores the arguments of the call and aligns the stack. */
#define GO_CALL_WITHIN 48

bool xp_go_switch_find(const uint8_t *code, size_t bytes, struct xp_go_switch *found)
{
	size_t at = 0, load = 0, call;

	while (at < bytes && !(load = go_load_bytes(code + at, bytes - at)))
		at++;
	if (!load)
		return false;
	found->start = at + load;
	for (at += load; at < bytes && at - found->start < GO_CALL_WITHIN; at++) {
		call = go_call_bytes(code + at, bytes - at);
		found->end = at + call;
		found->is_for_good = call == 3;
		if (call)
			return true;
	}
	return false;
}

/* push rcx, r11, rax; mov; syscall; pop rax, r11, rcx; ret */
unsigned int xp_uprobe_trampoline_words(uint64_t offset)
{
	static const uint8_t words[] = { 1, 2, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3, 2, 1 };

	return offset < sizeof(words) ? words[offset] : 0;
}
