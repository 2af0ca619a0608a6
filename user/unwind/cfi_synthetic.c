// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_synthetic.h"

#include <string.h>

#include "base/util.h"

#define STUB_BYTES 16

static const struct xp_cfi_row none;

/* ---- stubs ---- */

void xp_cfi_synthetic_init(struct xp_cfi_synthetic *gaps, struct xp_elf_file *image, uint64_t start, uint64_t end,
			   struct xp_cfi_rows *rows)
{
	static const struct {
		const char *name;
		enum xp_cfi_stubs_kind kind;
	} sections[XP_CFI_STUBS_MAX] = {
		{ ".plt", XP_CFI_STUBS_LAZY },	 { ".plt.sec", XP_CFI_STUBS_PLAIN }, { ".plt.got", XP_CFI_STUBS_PLAIN },
		{ ".iplt", XP_CFI_STUBS_PLAIN }, { ".init", XP_CFI_STUBS_INIT },     { ".fini", XP_CFI_STUBS_INIT },
	};

	gaps->image = image;
	gaps->rows = rows;
	gaps->stubs_count = 0;
	for (size_t i = 0; i < XP_CFI_STUBS_MAX; i++) {
		bool is_init = sections[i].kind == XP_CFI_STUBS_INIT;
		GElf_Shdr header;

		if (!xp_elf_file_section(image, sections[i].name, 0, &header) || header.sh_type != SHT_PROGBITS ||
		    (!is_init && header.sh_addr % STUB_BYTES) || header.sh_size > UINT32_MAX ||
		    header.sh_offset > UINT32_MAX)
			continue;
		/* Only both of its ends together identify it. */
		if (is_init && (header.sh_offset < start || header.sh_offset + header.sh_size > end))
			continue;
		gaps->stubs[gaps->stubs_count++] = (struct xp_cfi_stubs){
			.start = XP_MAX(header.sh_offset, start),
			.end = XP_MIN(header.sh_offset + header.sh_size, end),
			.kind = sections[i].kind,
			.has_first = header.sh_offset >= start,
		};
	}
}

/* The first section that lies in [start, end); NULL: none. */
static const struct xp_cfi_stubs *next_stubs(const struct xp_cfi_synthetic *gaps, uint64_t start, uint64_t end)
{
	const struct xp_cfi_stubs *first = NULL;

	for (size_t i = 0; i < gaps->stubs_count; i++) {
		const struct xp_cfi_stubs *stubs = &gaps->stubs[i];

		if (stubs->start >= start && stubs->start < stubs->end && stubs->end <= end &&
		    (!first || stubs->start < first->start))
			first = stubs;
	}
	return first;
}

static bool is_at(const uint8_t *code, size_t at, const char *bytes, size_t count)
{
	return !memcmp(code + at, bytes, count);
}

#define IS_AT(code, at, bytes) is_at(code, at, bytes, sizeof(bytes) - 1)

/* jmp *there(%rip), after endbr64, bnd, both or neither. */
static bool is_jump(const uint8_t *code)
{
	size_t at = IS_AT(code, 0, "\xf3\x0f\x1e\xfa") ? 4 : 0;

	if (IS_AT(code, at, "\xf2"))
		at++;
	return IS_AT(code, at, "\xff\x25");
}

static struct xp_cfi_row stub_rule(const uint8_t *code, bool is_lazy)
{
	const struct xp_cfi_row jump = { .rule = XP_CFI_RSP, .cfa = 1, .rbp = XP_CFI_RBP_SAME };
	struct xp_cfi_row lazy = { .rule = XP_CFI_PLT, .rbp = XP_CFI_RBP_SAME };

	if (is_lazy && IS_AT(code, 0, "\xff\x25") && code[6] == 0x68) /* push $number */
		lazy.cfa = 11;
	else if (is_lazy && IS_AT(code, 0, "\xf3\x0f\x1e\xfa\x68"))
		lazy.cfa = 9;
	if (lazy.cfa)
		return lazy;
	return is_jump(code) ? jump : none;
}

static int add_stubs(struct xp_cfi_synthetic *gaps, const struct xp_cfi_stubs *stubs)
{
	struct xp_cfi_row row = { .rule = XP_CFI_RSP, .cfa = 2, .rbp = XP_CFI_RBP_SAME };
	bool is_lazy = stubs->kind == XP_CFI_STUBS_LAZY;
	uint64_t start = stubs->start;
	uint8_t code[STUB_BYTES];
	int err = 0;

	/* The first lazy stub pushes a word for all others; the word pushed before it is already on the stack. */
	if (is_lazy && stubs->has_first && stubs->end - start > STUB_BYTES &&
	    xp_elf_file_read(gaps->image, code, start, sizeof(code)) && IS_AT(code, 0, "\xff\x35")) {
		err = xp_cfi_rows_add(gaps->rows, (uint32_t)start, &row, NULL);
		row.cfa++;
		if (!err)
			err = xp_cfi_rows_add(gaps->rows, (uint32_t)start + 6, &row, NULL);
		gaps->rows->code_bytes[XP_CFI_KNOWN] += STUB_BYTES;
		start += STUB_BYTES;
	}
	row = none;
	if (stubs->end - start >= STUB_BYTES && xp_elf_file_read(gaps->image, code, start, sizeof(code)))
		row = stub_rule(code, is_lazy);
	if (!err)
		err = xp_cfi_rows_add(gaps->rows, (uint32_t)start, &row, NULL);
	if (row.rule != XP_CFI_NONE)
		gaps->rows->code_bytes[XP_CFI_KNOWN] += stubs->end - start;
	return err;
}

/* ---- .init and .fini ---- */

/* Returns how many bytes come before the word is reserved; 0 if this is another function. */
static uint64_t init_head(const struct xp_cfi_synthetic *gaps, uint64_t start, uint64_t bytes)
{
	static const struct {
		const char *reserve;
		const char *let_go;
	} ways[] = {
		{ "\x48\x83\xec\x08", "\x48\x83\xc4\x08\xc3" }, /* sub $8,%rsp; add $8,%rsp; ret */
		{ "\x50", "\x58\xc3" },				/* musl: push %rax; pop %rax; ret */
	};
	uint8_t first[8] = { 0 }, last[5];

	if (!xp_elf_file_read(gaps->image, first, start, XP_MIN(bytes, (uint64_t)sizeof(first))))
		return 0;
	for (size_t i = 0; i < XP_ARRAY_SIZE(ways); i++) {
		size_t head = strlen(ways[i].reserve), tail = strlen(ways[i].let_go);
		size_t at = IS_AT(first, 0, "\xf3\x0f\x1e\xfa") ? 4 : 0;

		if (at + head + tail <= bytes && is_at(first, at, ways[i].reserve, head) &&
		    xp_elf_file_read(gaps->image, last, start + bytes - tail, tail) &&
		    is_at(last, 0, ways[i].let_go, tail))
			return at + head;
	}
	return 0;
}

static int add_init(struct xp_cfi_synthetic *gaps, uint64_t start, uint64_t end)
{
	struct xp_cfi_row row = { .rule = XP_CFI_RSP, .cfa = 1, .rbp = XP_CFI_RBP_SAME };
	uint64_t head = init_head(gaps, start, end - start);
	int err;

	if (!head)
		return xp_cfi_rows_add(gaps->rows, (uint32_t)start, &none, NULL);
	err = xp_cfi_rows_add(gaps->rows, (uint32_t)start, &row, NULL);
	row.cfa = 2;
	if (!err)
		err = xp_cfi_rows_add(gaps->rows, (uint32_t)(start + head), &row, NULL);
	row.cfa = 1;
	if (!err)
		err = xp_cfi_rows_add(gaps->rows, (uint32_t)(end - 1), &row, NULL);
	gaps->rows->code_bytes[XP_CFI_KNOWN] += end - start;
	return err;
}

/* ---- signal returns ---- */

static const uint8_t signal_return[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };

/*
 * Searches by the rarest byte; the setup cost of memmem(3) is too high for many short gaps. Returns NULL if there is
 * none.
 */
static const uint8_t *search(const uint8_t *code, size_t bytes)
{
	enum { RAREST = 1 };
	const uint8_t *at = code + RAREST, *end = code + bytes - (sizeof(signal_return) - 1) + RAREST;

	while (at < end && (at = memchr(at, signal_return[RAREST], (size_t)(end - at)))) {
		if (!memcmp(at - RAREST, signal_return, sizeof(signal_return)))
			return at - RAREST;
		at++;
	}
	return NULL;
}

/* Returns the offset of the first signal return in [start, end) of the file; end if there is none. */
static uint64_t find_signal_return(struct xp_cfi_synthetic *gaps, uint64_t start, uint64_t end)
{
	while (end - start >= sizeof(signal_return)) {
		size_t bytes = XP_MIN(end - start, (uint64_t)sizeof(gaps->chunk));
		const uint8_t *found;

		if (!xp_elf_file_read(gaps->image, gaps->chunk, start, bytes))
			break;
		found = search(gaps->chunk, bytes);
		if (found)
			return start + (uint64_t)(found - gaps->chunk);
		start += bytes - (sizeof(signal_return) - 1);
	}
	return end;
}

bool xp_cfi_synthetic_has_signal_return(struct xp_cfi_synthetic *gaps, uint64_t start, uint64_t end)
{
	return find_signal_return(gaps, start, end) != end;
}

/* The return address is the signal return's first byte, and lookups use the byte before it. So the row begins there. */
static int add_plain(struct xp_cfi_synthetic *gaps, uint64_t start, uint64_t end)
{
	static const struct xp_cfi_row signal = { .rule = XP_CFI_SIGNAL };
	int err = 0;

	while (!err && start < end) {
		uint64_t found = find_signal_return(gaps, start, end);

		if (found == end || found > start + 1)
			err = xp_cfi_rows_add(gaps->rows, (uint32_t)start, &none, NULL);
		start = found;
		if (!err && found < end) {
			err = xp_cfi_rows_add(gaps->rows, (uint32_t)XP_MAX(found, (uint64_t)1) - 1, &signal, NULL);
			start = found + sizeof(signal_return);
			gaps->rows->code_bytes[XP_CFI_KNOWN] += sizeof(signal_return);
		}
	}
	return err;
}

/* ---- clone3() ---- */

/*
 * The code: syscall; test %rax,%rax; jl error; je child; ret. Then, covered by an entry again, the child: xor
 * %ebp,%ebp; and $-16,%rsp. This matches clone3() but not clone(), whose child pops the function that it calls. Returns
 * how many bytes have no entry, or 0.
 */
static uint64_t clone_bytes(const struct xp_cfi_synthetic *gaps, uint64_t start)
{
	uint8_t code[20];
	size_t at = 5;

	if (!xp_elf_file_read(gaps->image, code, start, sizeof(code)) || !IS_AT(code, 0, "\x0f\x05\x48\x85\xc0"))
		return 0;
	if (code[at] == 0x7c)
		at += 2;
	else if (IS_AT(code, at, "\x0f\x8c"))
		at += 6;
	else
		return 0;
	return IS_AT(code, at, "\x74\x01\xc3\x31\xed\x48\x83\xe4") ? at + 3 : 0;
}

static int add_clone(struct xp_cfi_synthetic *gaps, uint64_t start, uint64_t bytes)
{
	static const struct xp_cfi_row clone = { .rule = XP_CFI_CLONE };

	gaps->rows->code_bytes[XP_CFI_KNOWN] += bytes;
	return xp_cfi_rows_add(gaps->rows, (uint32_t)start, &clone, NULL);
}

int xp_cfi_synthetic_add(struct xp_cfi_synthetic *gaps, uint64_t start, uint64_t end)
{
	const struct xp_cfi_stubs *stubs;
	int err = 0;

	if (start < end && clone_bytes(gaps, start) == end - start)
		return add_clone(gaps, start, end - start);
	while (!err && (stubs = next_stubs(gaps, start, end))) {
		err = add_plain(gaps, start, stubs->start);
		if (!err && stubs->kind == XP_CFI_STUBS_INIT)
			err = add_init(gaps, stubs->start, stubs->end);
		else if (!err)
			err = add_stubs(gaps, stubs);
		start = stubs->end;
	}
	return err ? err : add_plain(gaps, start, end);
}
