// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_synthetic.h"

#include "arch/x86_64/code_shapes.h"
#include "base/util.h"

/*
 * Limit for the size of a function that switches stacks in Go's runtime: the longest, asmcgocall(), has 174 bytes in Go
 * 1.19.
 */
#define GO_SWITCH_FUNCTION_MAX 512

static const struct xp_cfi_row none;

/* ---- stubs ---- */

void xp_cfi_synthetic_init(struct xp_cfi_synthetic *synthetic, struct xp_elf_file *image, uint64_t start, uint64_t end,
			   struct xp_cfi_rows *rows)
{
	static const struct {
		const char *name;
		enum xp_cfi_stubs_kind kind;
	} sections[XP_CFI_STUBS_MAX] = {
		{ ".plt", XP_CFI_STUBS_LAZY },	 { ".plt.sec", XP_CFI_STUBS_PLAIN }, { ".plt.got", XP_CFI_STUBS_PLAIN },
		{ ".iplt", XP_CFI_STUBS_PLAIN }, { ".init", XP_CFI_STUBS_INIT },     { ".fini", XP_CFI_STUBS_INIT },
	};

	synthetic->image = image;
	synthetic->rows = rows;
	synthetic->stubs_count = 0;
	synthetic->is_go = xp_elf_file_is_go(image);
	for (size_t i = 0; i < XP_CFI_STUBS_MAX; i++) {
		bool is_init = sections[i].kind == XP_CFI_STUBS_INIT;
		GElf_Shdr header;

		if (!xp_elf_file_section(image, sections[i].name, 0, &header) || header.sh_type != SHT_PROGBITS ||
		    (!is_init && header.sh_addr % XP_PLT_ENTRY_BYTES) || header.sh_size > UINT32_MAX ||
		    header.sh_offset > UINT32_MAX)
			continue;
		/*
		 * .init and .fini are identified by their start and their end together, so both must be in the range.
		 */
		if (is_init && (header.sh_offset < start || header.sh_offset + header.sh_size > end))
			continue;
		synthetic->stubs[synthetic->stubs_count++] = (struct xp_cfi_stubs){
			.start = XP_MAX(header.sh_offset, start),
			.end = XP_MIN(header.sh_offset + header.sh_size, end),
			.kind = sections[i].kind,
			.has_first = header.sh_offset >= start,
		};
	}
}

/* Returns the first section in [start, end), or NULL. */
static const struct xp_cfi_stubs *next_stubs(const struct xp_cfi_synthetic *synthetic, uint64_t start, uint64_t end)
{
	const struct xp_cfi_stubs *first = NULL;

	for (size_t i = 0; i < synthetic->stubs_count; i++) {
		const struct xp_cfi_stubs *stubs = &synthetic->stubs[i];

		if (stubs->start >= start && stubs->start < stubs->end && stubs->end <= end &&
		    (!first || stubs->start < first->start))
			first = stubs;
	}
	return first;
}

static struct xp_cfi_row stub_rule(const uint8_t *code, bool is_lazy)
{
	const struct xp_cfi_row jump = { .rule = XP_CFI_RSP, .cfa = 1, .rbp = XP_CFI_RBP_SAME };
	struct xp_cfi_row lazy = { .rule = XP_CFI_PLT, .rbp = XP_CFI_RBP_SAME };

	if (is_lazy)
		lazy.cfa = xp_plt_pushed_at(code);
	if (lazy.cfa)
		return lazy;
	return xp_plt_is_jump(code) ? jump : none;
}

static int add_stubs(struct xp_cfi_synthetic *synthetic, const struct xp_cfi_stubs *stubs)
{
	struct xp_cfi_row row = { .rule = XP_CFI_RSP, .cfa = 2, .rbp = XP_CFI_RBP_SAME };
	bool is_lazy = stubs->kind == XP_CFI_STUBS_LAZY;
	uint64_t start = stubs->start;
	uint8_t code[XP_PLT_ENTRY_BYTES];
	int err = 0;

	/*
	 * The first lazy stub pushes a word for all others. At its start, the word that another stub pushed is already
	 * on the stack.
	 */
	if (is_lazy && stubs->has_first && stubs->end - start > XP_PLT_ENTRY_BYTES &&
	    xp_elf_file_read(synthetic->image, code, start, sizeof(code)) && xp_plt_is_first(code)) {
		err = xp_cfi_rows_add(synthetic->rows, (uint32_t)start, &row, NULL);
		row.cfa++;
		if (!err)
			err = xp_cfi_rows_add(synthetic->rows, (uint32_t)start + XP_PLT_FIRST_PUSH_BYTES, &row, NULL);
		synthetic->rows->code_bytes[XP_CFI_KNOWN] += XP_PLT_ENTRY_BYTES;
		start += XP_PLT_ENTRY_BYTES;
	}
	row = none;
	if (stubs->end - start >= XP_PLT_ENTRY_BYTES && xp_elf_file_read(synthetic->image, code, start, sizeof(code)))
		row = stub_rule(code, is_lazy);
	if (!err)
		err = xp_cfi_rows_add(synthetic->rows, (uint32_t)start, &row, NULL);
	if (row.rule != XP_CFI_NONE)
		synthetic->rows->code_bytes[XP_CFI_KNOWN] += stubs->end - start;
	return err;
}

/* ---- .init and .fini ---- */

/* Returns the number of bytes before the instruction that reserves the word; 0 if this is another function. */
static uint64_t init_head(const struct xp_cfi_synthetic *synthetic, uint64_t start, uint64_t bytes)
{
	uint8_t first[XP_INIT_FIRST_BYTES] = { 0 }, last[XP_INIT_LAST_BYTES] = { 0 };
	uint64_t tail = XP_MIN(bytes, (uint64_t)sizeof(last));

	if (!xp_elf_file_read(synthetic->image, first, start, XP_MIN(bytes, (uint64_t)sizeof(first))) ||
	    !xp_elf_file_read(synthetic->image, last + sizeof(last) - tail, start + bytes - tail, tail))
		return 0;
	return xp_init_reserved_at(first, last, bytes);
}

static int add_init(struct xp_cfi_synthetic *synthetic, uint64_t start, uint64_t end)
{
	struct xp_cfi_row row = { .rule = XP_CFI_RSP, .cfa = 1, .rbp = XP_CFI_RBP_SAME };
	uint64_t head = init_head(synthetic, start, end - start);
	int err;

	if (!head)
		return xp_cfi_rows_add(synthetic->rows, (uint32_t)start, &none, NULL);
	err = xp_cfi_rows_add(synthetic->rows, (uint32_t)start, &row, NULL);
	row.cfa = 2;
	if (!err)
		err = xp_cfi_rows_add(synthetic->rows, (uint32_t)(start + head), &row, NULL);
	row.cfa = 1;
	if (!err)
		err = xp_cfi_rows_add(synthetic->rows, (uint32_t)(end - 1), &row, NULL);
	synthetic->rows->code_bytes[XP_CFI_KNOWN] += end - start;
	return err;
}

/* ---- signal returns ---- */

/* Returns the offset of the first signal return in [start, end) of the file, or end if there is none. */
static uint64_t find_signal_return(struct xp_cfi_synthetic *synthetic, uint64_t start, uint64_t end)
{
	while (end - start >= XP_SIGNAL_RETURN_BYTES) {
		size_t bytes = XP_MIN(end - start, (uint64_t)sizeof(synthetic->chunk));
		const uint8_t *found;

		if (!xp_elf_file_read(synthetic->image, synthetic->chunk, start, bytes))
			break;
		found = xp_signal_return_find(synthetic->chunk, bytes);
		if (found)
			return start + (uint64_t)(found - synthetic->chunk);
		start += bytes - (XP_SIGNAL_RETURN_BYTES - 1);
	}
	return end;
}

bool xp_cfi_synthetic_has_signal_return(struct xp_cfi_synthetic *synthetic, uint64_t start, uint64_t end)
{
	return find_signal_return(synthetic, start, end) != end;
}

/*
 * The return address is the first byte of the signal return, and lookups use the byte before it. So the row begins one
 * byte earlier.
 */
static int add_plain(struct xp_cfi_synthetic *synthetic, uint64_t start, uint64_t end)
{
	static const struct xp_cfi_row signal = { .rule = XP_CFI_SIGNAL };
	int err = 0;

	while (!err && start < end) {
		uint64_t found = find_signal_return(synthetic, start, end);

		if (found == end || found > start + 1)
			err = xp_cfi_rows_add(synthetic->rows, (uint32_t)start, &none, NULL);
		start = found;
		if (!err && found < end) {
			err = xp_cfi_rows_add(synthetic->rows, (uint32_t)XP_MAX(found, (uint64_t)1) - 1, &signal, NULL);
			start = found + XP_SIGNAL_RETURN_BYTES;
			synthetic->rows->code_bytes[XP_CFI_KNOWN] += XP_SIGNAL_RETURN_BYTES;
		}
	}
	return err;
}

/* ---- clone3() ---- */

/* Returns the number of bytes of clone3() after its system call that have no entry, or 0. */
static uint64_t clone_bytes(const struct xp_cfi_synthetic *synthetic, uint64_t start)
{
	uint8_t code[XP_CLONE3_BYTES];

	return xp_elf_file_read(synthetic->image, code, start, sizeof(code)) ? xp_clone3_bytes(code) : 0;
}

static int add_clone(struct xp_cfi_synthetic *synthetic, uint64_t start, uint64_t bytes)
{
	static const struct xp_cfi_row clone = { .rule = XP_CFI_CLONE };

	synthetic->rows->code_bytes[XP_CFI_KNOWN] += bytes;
	return xp_cfi_rows_add(synthetic->rows, (uint32_t)start, &clone, NULL);
}

/* ---- Go ---- */

bool xp_cfi_synthetic_except(struct xp_cfi_synthetic *synthetic, uint64_t start, uint64_t end,
			     struct xp_cfi_exception *exception)
{
	static const struct xp_cfi_row outermost = { .rule = XP_CFI_END }, elsewhere = { .rule = XP_CFI_SWITCH };
	struct xp_go_switch found;
	uint8_t *code = synthetic->chunk;

	if (!synthetic->is_go || end - start < XP_GO_EXIT_BYTES || end - start > GO_SWITCH_FUNCTION_MAX ||
	    !xp_elf_file_read(synthetic->image, code, start, end - start))
		return false;
	if (end - start == XP_GO_EXIT_BYTES && xp_go_is_exit(code)) {
		*exception = (struct xp_cfi_exception){ start, end, outermost };
		return true;
	}
	if (!xp_go_switch_find(code, end - start, &found))
		return false;
	*exception = (struct xp_cfi_exception){ start + found.start, start + found.end,
						found.is_for_good ? outermost : elsewhere };
	return true;
}

int xp_cfi_synthetic_add(struct xp_cfi_synthetic *synthetic, uint64_t start, uint64_t end)
{
	const struct xp_cfi_stubs *stubs;
	int err = 0;

	if (start < end && clone_bytes(synthetic, start) == end - start)
		return add_clone(synthetic, start, end - start);
	while (!err && (stubs = next_stubs(synthetic, start, end))) {
		err = add_plain(synthetic, start, stubs->start);
		if (!err && stubs->kind == XP_CFI_STUBS_INIT)
			err = add_init(synthetic, stubs->start, stubs->end);
		else if (!err)
			err = add_stubs(synthetic, stubs);
		start = stubs->end;
	}
	return err ? err : add_plain(synthetic, start, end);
}
