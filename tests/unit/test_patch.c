/* SPDX-License-Identifier: BSD-2-Clause */
/* The code of patched sleds and of the stub, byte for byte, and the addresses with room for the stub. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>

#include "arch/x86_64/code_shapes.h"
#include "arch/x86_64/patch_bytes.h"
#include "arch/x86_64/sled_bytes.h"
#include "sled/text_patches.h"
#include "target/address_gap.h"

#define ADDRESS 0x401000ull
#define SLOT 0x300100ull
#define FN 0x234567u

static void assert_patch(const struct xp_sled *sled, const uint8_t *expected, size_t size)
{
	uint8_t bytes[XP_SLED_BYTES_MAX];
	uint64_t slot = 0;

	assert_int_equal(size, xp_sled_bytes((enum xp_sled_kind)sled->kind));
	assert_int_equal(xp_patch_encode(sled, FN, ADDRESS, SLOT, bytes), size);
	assert_memory_equal(bytes, expected, size);
	assert_true(xp_patch_decode((enum xp_sled_kind)sled->kind, bytes, ADDRESS, &slot));
	assert_true(slot == SLOT);
	/* It is never confused with an unpatched sled. */
	assert_false(xp_sled_intact((enum xp_sled_kind)sled->kind, bytes));
	assert_false(xp_patch_decode_remains((enum xp_sled_kind)sled->kind, bytes, ADDRESS, &slot));
	assert_int_equal(xp_patch_head((enum xp_sled_kind)sled->kind, bytes), sled->kind == XP_SLED_EXIT ? 1 : 2);
	assert_true(xp_sled_intact((enum xp_sled_kind)sled->kind, bytes));
	assert_false(xp_patch_decode((enum xp_sled_kind)sled->kind, bytes, ADDRESS, &slot));
	/* The bytes after the first instruction still identify a sled. */
	slot = 0;
	assert_true(xp_patch_decode_remains((enum xp_sled_kind)sled->kind, bytes, ADDRESS, &slot));
	assert_true(slot == SLOT);
}

/* mov $kind << 24 | fn,%r10d; then call or jmp to SLOT - (ADDRESS + 11) = -0x100f0b. */
TEST(test_calls)
{
	static const uint8_t entry[] = { 0x41, 0xba, 0x67, 0x45, 0x23, 0x00, 0xe8, 0xf5, 0xf0, 0xef, 0xff };
	static const uint8_t exit[] = { 0x41, 0xba, 0x67, 0x45, 0x23, 0x01, 0xe9, 0xf5, 0xf0, 0xef, 0xff };
	static const uint8_t tail[] = { 0x41, 0xba, 0x67, 0x45, 0x23, 0x02, 0xe8, 0xf5, 0xf0, 0xef, 0xff };
	static const uint8_t args[] = { 0x41, 0xba, 0x67, 0x45, 0x23, 0x03, 0xe8, 0xf5, 0xf0, 0xef, 0xff };

	assert_patch(&(struct xp_sled){ .kind = XP_SLED_ENTRY }, entry, sizeof(entry));
	assert_patch(&(struct xp_sled){ .kind = XP_SLED_EXIT }, exit, sizeof(exit));
	assert_patch(&(struct xp_sled){ .kind = XP_SLED_TAIL_EXIT }, tail, sizeof(tail));
	assert_patch(&(struct xp_sled){ .kind = XP_SLED_ENTRY_ARGS }, args, sizeof(args));
}

/* mov $255 << 24 | 4 * 7,%r10d; call STUB + 0x200 - (ADDRESS + 11) = -0x100e0b. */
TEST(test_counted)
{
	static const uint8_t expected[] = { 0x41, 0xba, 0x1c, 0x00, 0x00, 0xff, 0xe8, 0xf5, 0xf1, 0xef, 0xff };
	const struct xp_sled sled = { .kind = XP_SLED_ENTRY };
	uint8_t bytes[XP_SLED_BYTES_MAX];
	uint64_t slot = 0;

	assert_int_equal(xp_patch_encode_count(&sled, 7, ADDRESS, SLOT - 0x100, bytes), sizeof(expected));
	assert_memory_equal(bytes, expected, sizeof(expected));
	assert_true(xp_patch_decode(XP_SLED_ENTRY, bytes, ADDRESS, &slot));
	assert_true(slot == SLOT + 0x100 && xp_stub_is_slot(slot - (SLOT - 0x100)));
	assert_int_equal(xp_patch_encode_count(&sled, 7, ADDRESS, ADDRESS + (1ull << 31), bytes), 0);
}

/* push fn; push operands; call SLOT; lea 16(%rsp),%rsp. */
TEST(test_events)
{
	static const uint8_t custom[] = { 0x68, 0x67, 0x45, 0x23, 0x00, 0x6a, 0xe3, 0xe8, 0xf4,
					  0xf0, 0xef, 0xff, 0x48, 0x8d, 0x64, 0x24, 0x10 };
	static const uint8_t typed[] = { 0x68, 0x67, 0x45, 0x23, 0x00, 0x68, 0xe3, 0x0c, 0x00, 0x00, 0xe8,
					 0xf1, 0xf0, 0xef, 0xff, 0x48, 0x8d, 0x64, 0x24, 0x10, 0x66, 0x90 };

	assert_patch(&(struct xp_sled){ .kind = XP_SLED_CUSTOM_EVENT, .operands = { 3, 14 } }, custom, sizeof(custom));
	assert_patch(&(struct xp_sled){ .kind = XP_SLED_TYPED_EVENT, .operands = { 3, 14, 12 } }, typed, sizeof(typed));
}

TEST(test_reach)
{
	const struct xp_sled sled = { .kind = XP_SLED_ENTRY };
	uint8_t bytes[XP_SLED_BYTES_MAX];

	assert_int_equal(xp_patch_encode(&sled, FN, ADDRESS, ADDRESS + 11 + 0x7fffffff, bytes), 11);
	assert_int_equal(xp_patch_encode(&sled, FN, ADDRESS, ADDRESS + 11 + 0x80000000ull, bytes), 0);
	assert_int_equal(xp_patch_encode(&sled, FN, 1ull << 40, (1ull << 40) + 11 - 0x80000000ull, bytes), 11);
	assert_int_equal(xp_patch_encode(&sled, FN, 1ull << 40, (1ull << 40) + 10 - 0x80000000ull, bytes), 0);
}

/* XRay's own patches lead to other code; bytes of other instructions are not a patch. */
TEST(test_not_ours)
{
	static const uint8_t other[XP_SLED_BYTES_MAX] = { 0x41, 0xba, 1, 0, 0, 0, 0x90 };
	static const uint8_t push[XP_SLED_BYTES_MAX] = { 0x68, 1, 0, 0, 0, 0x6a, 0, 0xe8, 0, 0, 0, 0, 0x90 };
	uint64_t slot;

	for (int kind = 0; kind < XP_SLED_KINDS; kind++) {
		uint8_t unpatched[XP_SLED_BYTES_MAX] = { 0x41, 0xba, 1, 0, 0, 0, 0x90 };

		assert_false(xp_patch_decode((enum xp_sled_kind)kind, other, ADDRESS, &slot));
		xp_patch_head((enum xp_sled_kind)kind, unpatched);
		assert_false(xp_patch_decode_remains((enum xp_sled_kind)kind, unpatched, ADDRESS, &slot));
	}
	assert_false(xp_patch_decode(XP_SLED_CUSTOM_EVENT, push, ADDRESS, &slot));
}

/* After a conditional jump that is not taken, the function continues with its red zone and r10. */
TEST(test_conditional)
{
	assert_false(xp_patch_possible(&(struct xp_sled){ .kind = XP_SLED_TAIL_EXIT, .conditional = true }));
	assert_true(xp_patch_possible(&(struct xp_sled){ .kind = XP_SLED_TAIL_EXIT }));
}

/* The slot of calls: cmpb $0,0x1000 - entry - 7(%rip); je to the child's; nop; ret; nop; ret. */
TEST(test_stub)
{
	static const uint8_t call[] = { 0x80, 0x3d, 0xf9, 0x0e, 0x00, 0x00, 0x00,
					0x74, 0x02, 0x90, 0xc3, 0x90, 0xc3, 0xcc };
	uint8_t page[XP_STUB_BYTES];
	size_t slots = 0;

	xp_stub_make(page);
	assert_int_equal(xp_stub_entry(XP_STUB_CALL), 0x100);
	assert_memory_equal(page + 0x100, call, sizeof(call));
	assert_int_equal(xp_stub_probe(XP_STUB_CALL), 0x109);
	for (size_t offset = 0; offset < XP_STUB_BYTES; offset++)
		slots += xp_stub_is_slot(offset);
	/* Slots for memory mode that discard short calls, with and without rdpid; two events. */
	assert_int_equal(slots, XP_STUB_SLOTS + 1 + 4 + 2);
	assert_false(xp_stub_is_slot(XP_STUB_ANCHOR));
	assert_false(xp_stub_is_slot(XP_STUB_BYTES + xp_stub_entry(XP_STUB_CALL)));
	assert_false(xp_stub_is_slot(-1ull));
}

/* The kernel replaces a probed nop of several bytes, and removing such a probe can kill the machine (stub.h). */
TEST(test_probes_are_on_nops_of_one_byte)
{
	uint8_t page[XP_STUB_BYTES];

	xp_stub_make(page);
	for (int slot = 0; slot < XP_STUB_SLOTS; slot++) {
		assert_memory_equal(page + xp_stub_probe((enum xp_stub_slot)slot), "\x90\xc3", 2);
		assert_memory_equal(page + xp_stub_child_probe((enum xp_stub_slot)slot), "\x90\xc3", 2);
	}
	for (int rdpid = 0; rdpid < 2; rdpid++) {
		/* nop; pop %rdx. nop; jmp to this pop */
		assert_memory_equal(page + xp_stub_memory_probe(rdpid), "\x90\x5a", 2);
		assert_memory_equal(page + xp_stub_memory_child_probe(rdpid), "\x90\xeb\x01\x90", 4);
	}
	for (int slot = XP_STUB_CUSTOM; slot <= XP_STUB_TYPED; slot++)
		assert_memory_equal(page + xp_stub_memory_event_probe((enum xp_stub_slot)slot), "\x90\xc3", 2);
	assert_memory_equal(page + XP_STUB_ANCHOR, "\x90\xc3", 2);
}

/* Calls the counting slot as a sled does, and checks that it preserves the argument registers. */
static bool call_counter(const uint8_t *stub, uint32_t word)
{
	uint64_t a = 1, b = 2, c = 3, d = 4, r = 5;
	register uint64_t r8 __asm__("r8") = 6;
	register uint64_t r9 __asm__("r9") = 7;
	register uint64_t r11 __asm__("r11") = 8;

	/* Skips the red zone. */
	__asm__ volatile("mov %[word],%%r10d\n"
			 "lea -256(%%rsp),%%rsp\n"
			 "call *%[slot]\n"
			 "lea 256(%%rsp),%%rsp\n"
			 : "+D"(a), "+S"(b), "+d"(c), "+c"(d), "+a"(r), "+r"(r8), "+r"(r9), "+r"(r11)
			 : [word] "r"(word), [slot] "r"(stub + XP_STUB_COUNT)
			 : "r10", "cc", "memory");
	return a == 1 && b == 2 && c == 3 && d == 4 && r == 5 && r8 == 6 && r9 == 7 && r11 == 8;
}

/* Runs the code in this process. */
TEST(test_counters)
{
	static uint32_t sums[XP_STUB_COUNTERS_MAX];
	int fd = xp_stub_open();
	uint8_t *stub = xp_stub_map(fd);
	const uint32_t *shards;

	assert_non_null(stub);
	for (uint32_t counter = 0; counter < XP_STUB_COUNTERS_MAX; counter++)
		for (uint32_t i = 0; i < 2 * counter; i++)
			assert_true(call_counter(stub, xp_event_word(4 * counter, XP_EVENT_NONE)));
	/*
	 * Words of records from a thread that was inside the sled during the change, and words beyond the last valid
	 * one.
	 */
	assert_true(call_counter(stub, xp_event_word(5, XP_EVENT_ENTRY)));
	assert_true(call_counter(stub, xp_event_word(FN, XP_EVENT_ENTRY_ARGS)));
	assert_true(call_counter(stub, xp_event_word(4 * XP_STUB_COUNTERS_MAX, XP_EVENT_NONE)));
	assert_true(call_counter(stub, ~0u));
	shards = (const uint32_t *)(stub + XP_STUB_COUNTERS);
	for (uint32_t i = 0; i < XP_STUB_SHARDS * XP_STUB_COUNTERS_MAX; i++)
		sums[i % XP_STUB_COUNTERS_MAX] += shards[i];
	for (uint32_t counter = 0; counter < XP_STUB_COUNTERS_MAX; counter++)
		assert_int_equal(sums[counter], 2 * counter);
	munmap(stub, XP_STUB_ROOM);
	close(fd);
}

/* Reads the stub's ELF file as libelf and libdw do: one name, and the unwind rule of each instruction. */
/*
 * Returns what a slot for memory mode has pushed before pc: three registers, which each of its two paths pops. The
 * bytes of push and pop are those of rax, rdx and r11 (0x41 0x53, 0x41 0x5b).
 */
static unsigned int pushed_bytes(const uint8_t *page, uint64_t pc)
{
	static const uint8_t pushes[] = { 0x41, 0x53, 0x50, 0x52 }, pops[] = { 0x5a, 0x58, 0x41, 0x5b };
	static const uint8_t bytes_before_pop[] = { 24, 16, 8, 8 };
	uint64_t slot = XP_STUB_MEMORY + (pc - XP_STUB_MEMORY) / 256 * 256, begin = slot;

	assert_memory_equal(page + begin, pushes, sizeof(pushes));
	if (pc < begin + 2)
		return 0;
	if (pc < begin + 4)
		return pc < begin + 3 ? 8 : 16;
	for (uint64_t i = begin; i < slot + 256 - sizeof(pops); i++) {
		if (memcmp(page + i, pops, sizeof(pops)) != 0)
			continue;
		if (pc <= i)
			return 24;
		if (pc < i + sizeof(pops))
			return bytes_before_pop[pc - i];
		/* The ret; then the other path. */
		if (pc <= i + sizeof(pops))
			return 0;
		begin = i;
	}
	return 0;
}

TEST(test_stub_elf)
{
	uint8_t page[XP_STUB_BYTES];
	Dwarf_Frame *frame = NULL;
	Dwarf_Op *ops = NULL;
	GElf_Sym symbol;
	GElf_Shdr header;
	Elf_Scn *section = NULL;
	Dwarf_CFI *cfi;
	size_t op_count = 0;
	Elf *elf;

	xp_stub_make(page);
	assert_int_equal(elf_version(EV_CURRENT), EV_CURRENT);
	elf = elf_memory((char *)page, sizeof(page));
	assert_non_null(elf);
	while ((section = elf_nextscn(elf, section)) && gelf_getshdr(section, &header) && header.sh_type != SHT_SYMTAB)
		;
	assert_non_null(section);
	assert_non_null(gelf_getsym(elf_getdata(section, NULL), 1, &symbol));
	assert_string_equal(elf_strptr(elf, header.sh_link, symbol.st_name), "xprof_stub_9");
	assert_true(symbol.st_value == 0x100 && symbol.st_size == 0x700);
	cfi = dwarf_getcfi_elf(elf);
	assert_non_null(cfi);
	/* test_take_back.c steps through the other slots. */
	for (uint64_t pc = 0x100; pc < 0x480; pc++) {
		assert_int_equal(dwarf_cfi_addrframe(cfi, pc, &frame), 0);
		assert_int_equal(dwarf_frame_cfa(frame, &ops, &op_count), 0);
		assert_int_equal(op_count, 1);
		assert_true(ops[0].atom == DW_OP_bregx && ops[0].number == 7);
		/* Between push and pop. */
		if (pc < 0x280)
			assert_int_equal(ops[0].number2, pc >= 0x212 && pc < 0x235 ? 16 : 8);
		else
			assert_int_equal(ops[0].number2, 8 + pushed_bytes(page, pc));
		free(frame);
	}
	assert_int_not_equal(dwarf_cfi_addrframe(cfi, 0x800, &frame), 0);
	dwarf_cfi_end(cfi);
	elf_end(elf);
}

/* Inside a function, the CPU's flags may be in use, so there is no guard. */
TEST(test_event_slots)
{
	uint8_t page[XP_STUB_BYTES];

	xp_stub_make(page);
	for (int slot = XP_STUB_CUSTOM; slot <= XP_STUB_TYPED; slot++) {
		uint32_t entry = xp_stub_entry((enum xp_stub_slot)slot);

		assert_int_equal(xp_stub_probe((enum xp_stub_slot)slot), entry);
		assert_int_equal(xp_stub_child_probe((enum xp_stub_slot)slot), entry);
		assert_memory_equal(page + entry, "\x90\xc3\xcc", 3);
	}
}

/* Forked children use their own nop, to which the guard of each slot jumps. */
TEST(test_child_nops)
{
	uint8_t page[XP_STUB_BYTES];
	uint32_t distance;

	xp_stub_make(page);
	for (int slot = 0; slot <= XP_STUB_ARGS; slot++) {
		uint32_t entry = xp_stub_entry((enum xp_stub_slot)slot);
		uint32_t child = xp_stub_child_probe((enum xp_stub_slot)slot);

		assert_int_equal(page[entry + 7], 0x74);
		assert_int_equal(entry + 9 + page[entry + 8], child);
		assert_memory_equal(page + child - 1, "\xc3\x90\xc3\xcc", 4);
	}
	for (int rdpid = 0; rdpid < 2; rdpid++) {
		uint32_t child = xp_stub_memory_child_probe(rdpid);

		/* cmpb $0, flag; jne over the nop of children */
		memcpy(&distance, page + child - 7, sizeof(distance));
		assert_memory_equal(page + child - 9, "\x80\x3d", 2);
		assert_int_equal(child - 2 + distance, XP_STUB_FLAG);
		assert_memory_equal(page + child - 3, "\x00\x75\x03", 3);
		assert_int_equal(child + 3, xp_stub_memory_probe(rdpid));
	}
}

/* Returns the size of the nops at the start of the code. */
#define NOPS(code) xp_long_nops_bytes((const uint8_t *)(code), sizeof(code) - 1)

TEST(test_long_nops)
{
	assert_int_equal(NOPS("\x55\x48\x89\xe5"), 0);
	assert_int_equal(NOPS("\x90\xc3"), 0);
	assert_int_equal(NOPS("\xf3\x90\xc3"), 0); /* pause */
	assert_int_equal(NOPS("\x41\x90\xc3"), 0); /* xchg %r8,%rax */
	assert_int_equal(NOPS("\x0f\x1f"), 2);	   /* truncated */
	assert_int_equal(NOPS("\x66\x90\xc3"), 2);
	assert_int_equal(NOPS("\x0f\x1f\x00\xc3"), 3);
	assert_int_equal(NOPS("\xf3\x0f\x1e\xfa\xc3"), 4); /* endbr64 */
	assert_int_equal(NOPS("\x0f\x1f\x44\x00\x00\x55"), 5);
	assert_int_equal(NOPS("\x0f\x1f\x80\x00\x00\x00\x00\x55"), 7);
	assert_int_equal(NOPS("\x66\x0f\x1f\x84\x00\x00\x02\x00\x00\xc3"), 9);
	assert_int_equal(NOPS("\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00\xc3"), 10);
	/* Several nops. */
	assert_int_equal(NOPS("\xf3\x0f\x1e\xfa\x0f\x1f\x44\x00\x00\xc3"), 9);
	assert_int_equal(NOPS("\x66\x90\x66\x90\x66\x90"), 6);
}

/* clang's entry sled, and one with another nop. */
TEST(test_unused_bytes_of_a_sled)
{
	static const uint8_t sled[XP_SLED_BYTES_MAX] = { 0xeb, 0x09, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0 };
	static const uint8_t other[XP_SLED_BYTES_MAX] = { 0xeb, 0x09, 0x0f, 0x1f, 0x80, 0, 0, 0, 0, 0x66, 0x90 };

	assert_int_equal(xp_sled_unused(sled), 5);
	assert_int_equal(xp_long_nops_bytes(sled + 5, 6), 0);
	assert_int_equal(xp_sled_unused(other), 0);
}

static uint64_t find(const char *maps, uint64_t start, uint64_t end)
{
	char text[2000];

	snprintf(text, sizeof(text), "%s", maps);
	return xp_address_gap_find(text, start, end, 4096);
}

#define LINE(range, rest) range " r-xp 00000000 fe:00 12345 " rest "\n"
#define EXE LINE("555555554000-555555556000", "/bin/a")
#define HEAP LINE("555555557000-555555578000", "[heap]")
#define LIBC LINE("7ffff7c00000-7ffff7e00000", "/lib/libc.so.6")
#define STACK LINE("7ffffffde000-7ffffffff000", "[stack]")

TEST(test_below)
{
	/* 1 MiB below, so that neither mapping can grow into the other. */
	assert_true(find(EXE HEAP LIBC STACK, 0x555555554000, 0x555555556000) == 0x555555453000);
	assert_true(find(EXE HEAP LIBC STACK, 0x7ffff7c00000, 0x7ffff7e00000) == 0x7ffff7aff000);
}

/* A position-dependent program without space below: after it, 1 GiB away from mappings that may grow. */
TEST(test_above)
{
	assert_true(find(LINE("000000100000-000000400000", "/bin/a") LINE("000000500000-000000600000", ""), 0x100000,
			 0x400000) == 0x47f000);
	assert_true(find(LINE("000000100000-000000400000", "/bin/a") LINE("000000400000-000000500000", "[heap]"),
			 0x100000, 0x400000) == 0x40600000);
	assert_true(find(LINE("000000100000-000000400000", "/bin/a") LINE("000000400000-000000500000", "[heap]")
			     LINE("000040000000-000080000000", ""),
			 0x100000, 0x400000) == 0);
	assert_true(find(LINE("000000100000-000000400000", "/bin/a") LINE("000050000000-000060000000", "[stack]"),
			 0x100000, 0x400000) == 0x500000);
	assert_true(find(LINE("000000100000-000000400000", "/bin/a") LINE("000000500000-000000600000", "[stack]"),
			 0x100000, 0x400000) == 0x700000);
}

/* No space within 2 GiB on either side. */
TEST(test_no_room)
{
	assert_true(find(LINE("100000000000-100090000000", "") LINE("100090000000-100090010000", "/bin/a")
			     LINE("100090010000-100120000000", ""),
			 0x100090000000, 0x100090010000) == 0);
	/* A single page is enough. */
	assert_true(find(LINE("100000000000-100088000000", "") LINE("100088001000-100090010000", "/bin/a")
			     LINE("100090010000-100120000000", ""),
			 0x100090000000, 0x100090010000) == 0x100088000000);
}

static int sort_jumps(const uint64_t *addresses, const uint8_t *targets, size_t count, size_t *kept)
{
	struct xp_text_patches patches = { 0 };
	int err;

	for (size_t i = 0; i < count; i++) {
		struct xp_text_patch jump = { .address = addresses[i], .kind = XP_JUMP_SHORT, .size = 2 };

		jump.jump.from[0] = 0xeb;
		jump.jump.from[1] = targets[i];
		jump.jump.from[2] = (uint8_t)i; /* not part of it */
		assert_int_equal(xp_text_patches_add(&patches, &jump), 0);
	}
	err = xp_text_patches_sort(&patches);
	*kept = patches.count;
	xp_text_patches_free(&patches);
	return err;
}

TEST(short_jumps_of_two_recordings)
{
	size_t kept;

	assert_int_equal(sort_jumps((uint64_t[]){ 16, 8, 16 }, (uint8_t[]){ 1, 1, 1 }, 3, &kept), 0);
	assert_int_equal(kept, 2);
	assert_int_equal(sort_jumps((uint64_t[]){ 16, 8, 16 }, (uint8_t[]){ 1, 1, 2 }, 3, &kept), -EINVAL);
	assert_int_equal(sort_jumps((uint64_t[]){ 16, 17 }, (uint8_t[]){ 1, 1 }, 2, &kept), -EINVAL);
}
