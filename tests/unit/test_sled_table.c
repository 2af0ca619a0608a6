// SPDX-License-Identifier: BSD-2-Clause
#include "elf/sled_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

#include "arch/x86_64/sled_bytes.h"
#include "base/why.h"
#include "tiny_elf.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

static struct xp_sled_table *read_good(const struct tiny_elf *elf)
{
	struct xp_sled_table *table;
	int err = xp_sled_table_read(&table, elf->bytes, sizeof(elf->bytes));

	if (err)
		fail_msg("refused: %s", xp_why(err));
	assert_non_null(table);
	return table;
}

/* Checks that the file is refused with this error, and with these words in the message. */
static void assert_refused(const void *elf, size_t size, int error, const char *words)
{
	struct xp_sled_table *table = (void *)1;
	int err = xp_sled_table_read(&table, elf, size);

	assert_int_equal(err, error);
	assert_null(table);
	if (!strstr(xp_why(err), words))
		fail_msg("'%s' not in '%s'", words, xp_why(err));
}

static void assert_elf_refused(const struct tiny_elf *elf, int error, const char *words)
{
	assert_refused(elf->bytes, sizeof(elf->bytes), error, words);
}

static void assert_sled(const struct xp_sled_table *table, size_t index, uint64_t vaddr, uint64_t file_offset,
			uint32_t function_id, enum xp_sled_kind kind)
{
	const struct xp_sled *sled = &table->sleds[index];

	assert_int_equal(sled->vaddr, vaddr);
	assert_int_equal(sled->file_offset, file_offset);
	assert_int_equal(sled->function_id, function_id);
	assert_int_equal(sled->kind, kind);
	assert_int_equal(sled->always, 1);
	assert_true(sled->intact);
}

static void assert_example(const struct tiny_elf *elf, uint8_t version)
{
	struct xp_sled_table *table = read_good(elf);
	uint64_t text = elf->base + 0x5200;

	assert_int_equal(table->sled_count, 6);
	assert_sled(table, 0, text + 0x00, 0x200, 1, XP_SLED_ENTRY);
	assert_sled(table, 1, text + 0x20, 0x220, 1, XP_SLED_CUSTOM_EVENT);
	assert_sled(table, 2, text + 0x40, 0x240, 1, XP_SLED_TYPED_EVENT);
	assert_sled(table, 3, text + 0x60, 0x260, 1, XP_SLED_EXIT);
	assert_sled(table, 4, text + 0x84, 0x284, 2, XP_SLED_ENTRY_ARGS);
	assert_sled(table, 5, text + 0xa0, 0x2a0, 2, XP_SLED_TAIL_EXIT);
	assert_memory_equal(table->sleds[1].operands, ((uint8_t[]){ R13, RSI }), 2);
	assert_memory_equal(table->sleds[2].operands, ((uint8_t[]){ RSI, R8, RAX }), 3);
	assert_false(table->sleds[0].conditional);
	assert_true(table->sleds[5].conditional);
	assert_int_equal(table->sleds[5].condition, 5);

	assert_int_equal(table->function_count, 2);
	assert_int_equal(table->functions[0].vaddr, text);
	assert_int_equal(table->functions[1].vaddr, text + 0x80);
	assert_string_equal(table->functions[0].name, "first");
	assert_string_equal(table->functions[1].name, "_ZN2ns6secondEv");
	assert_int_equal(table->map_version, version);
	assert_int_equal(table->pie, elf->base == 0);
	assert_int_equal(table->build_id_bytes, 8);
	assert_memory_equal(table->build_id, "\1\2\3\4\5\6\7\10", 8);
	xp_sled_table_free(table);
}

TEST(test_versions)
{
	struct tiny_elf elf;

	for (uint8_t version = 0; version <= 2; version++) {
		for (int pie = 0; pie <= 1; pie++) {
			tiny_example(&elf, pie, version);
			assert_example(&elf, version);
		}
	}
}

/* The bytes of one entry of each version, written by hand rather than computed. */
TEST(test_golden_entries)
{
	/* At 0x408400: sled 0x405210, function 0x405200; 0x405210 - 0x408400 and 0x405200 - 0x408408. */
	static const uint8_t relative[32] = { 0x10, 0xce, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf8, 0xcd,
					      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00, 0x01, 0x02 };
	static const uint8_t absolute[32] = { 0x10, 0x52, 0x40, 0, 0, 0, 0, 0, 0, 0x52, 0x40, 0, 0, 0, 0, 0, 0, 1, 1 };
	const uint8_t *const entries[] = { relative, absolute };

	for (size_t i = 0; i < 2; i++) {
		struct xp_sled_table *table;
		struct tiny_elf elf;

		tiny_init(&elf, 0);
		tiny_code(&elf, 0x10, "\xeb\x09", 2);
		tiny_raw_sled(&elf, 0, 0, 0, 0);
		memcpy(elf.bytes + TINY_MAP, entries[i], 32);
		table = read_good(&elf);
		assert_sled(table, 0, 0x405210, 0x210, 1, XP_SLED_ENTRY);
		assert_int_equal(table->functions[0].vaddr, 0x405200);
		assert_null(table->functions[0].name);
		assert_int_equal(table->map_version, 2 - i);
		xp_sled_table_free(table);
	}
}

/* A PIE of map version 1, whose addresses are only in its relocations. */
TEST(test_relocations)
{
	struct xp_sled_table *table;
	struct tiny_elf elf;

	tiny_init(&elf, 1);
	tiny_code(&elf, 0x10, "\xeb\x09", 2);
	tiny_code(&elf, 0x40, "\xc3", 1);
	tiny_raw_sled(&elf, 0, 0, 0, 1);
	tiny_raw_sled(&elf, 0, 0, 1, 0);
	tiny_relocation(&elf, 0x20, 8, 0x77); /* elsewhere */
	tiny_relocation(&elf, tiny_map_vaddr(&elf, 40), 8, tiny_text_vaddr(&elf, 0x10));
	tiny_relocation(&elf, tiny_map_vaddr(&elf, 0), 8, tiny_text_vaddr(&elf, 0x10));
	tiny_relocation(&elf, tiny_map_vaddr(&elf, 8), 8, tiny_text_vaddr(&elf, 0x10));
	tiny_relocation(&elf, tiny_map_vaddr(&elf, 32), 8, tiny_text_vaddr(&elf, 0x40));
	tiny_relocation(&elf, tiny_map_vaddr(&elf, 64), 1, 5); /* after the map: any type */
	table = read_good(&elf);
	assert_int_equal(table->sled_count, 2);
	assert_int_equal(table->function_count, 1);
	assert_sled(table, 0, 0x5210, 0x210, 1, XP_SLED_ENTRY);
	assert_sled(table, 1, 0x5240, 0x240, 1, XP_SLED_EXIT);
	xp_sled_table_free(table);

	/* --emit-relocs makes such a section, which is not loaded. */
	tiny_example(&elf, 1, 2);
	tiny_relocation(&elf, tiny_map_vaddr(&elf, 3), 24, 5);
	tiny_put(&elf, tiny_section_header(TINY_S_RELA) + 8, 0, 8);
	assert_example(&elf, 2);
}

TEST(test_bad_relocations)
{
	struct tiny_elf elf;

	tiny_example(&elf, 1, 1);
	tiny_relocation(&elf, tiny_map_vaddr(&elf, 0), 1, 0);
	assert_elf_refused(&elf, -EINVAL, "relocation of type 1");

	tiny_example(&elf, 1, 1);
	tiny_relocation(&elf, tiny_map_vaddr(&elf, 4), 8, 0);
	assert_elf_refused(&elf, -EINVAL, "at offset 4");

	tiny_example(&elf, 1, 1);
	tiny_put(&elf, tiny_section_header(TINY_S_RELA) + 24, TINY_BYTES - 24 - 8, 8);
	tiny_section_bytes(&elf, TINY_S_RELA, 48);
	assert_elf_refused(&elf, -EINVAL, "relocation section reaches beyond");

	tiny_example(&elf, 1, 1);
	tiny_section_bytes(&elf, TINY_S_RELA, UINT64_MAX);
	assert_elf_refused(&elf, -EINVAL, "larger than the file");
}

/* IDs count changes of the function, not functions, as with XRay's runtime and llvm-xray. */
TEST(test_function_ids)
{
	static const uint8_t functions[] = { 0x10, 0x10, 0x20, 0x10, 0x30, 0x30 };
	static const uint32_t ids[] = { 1, 1, 2, 3, 4, 4 };
	struct xp_sled_table *table;
	struct tiny_elf elf;

	tiny_init(&elf, 1);
	for (size_t i = 0; i < sizeof(functions); i++)
		tiny_sled(&elf, 0x100, functions[i], 0, 2);
	table = read_good(&elf);
	for (size_t i = 0; i < sizeof(functions); i++)
		assert_int_equal(table->sleds[i].function_id, ids[i]);
	assert_int_equal(table->function_count, 4);
	assert_int_equal(table->functions[2].vaddr, tiny_text_vaddr(&elf, 0x10));
	xp_sled_table_free(table);
}

TEST(test_not_intact)
{
	struct xp_sled_table *table;
	struct tiny_elf elf;

	tiny_example(&elf, 0, 2);
	tiny_code(&elf, 0x00, "\x41\xba", 2); /* patched */
	tiny_code(&elf, 0x25, "\x41", 1);     /* not a nop of LLVM's setup of a custom event */
	tiny_code(&elf, 0x46, "\xc7", 1);     /* memory operand in the setup of a typed event */
	tiny_code(&elf, 0x60, "\xc2", 1);
	table = read_good(&elf);
	for (size_t i = 0; i < 4; i++)
		assert_false(table->sleds[i].intact);
	assert_true(table->sleds[4].intact);
	assert_true(table->sleds[5].intact);
	xp_sled_table_free(table);
}

TEST(test_intact_bytes)
{
	static const struct {
		enum xp_sled_kind kind;
		uint8_t bytes[XP_SLED_BYTES_MAX];
		bool intact;
	} cases[] = {
		{ XP_SLED_ENTRY, { 0xeb, 0x09 }, true },
		{ XP_SLED_ENTRY, { 0xeb, 0x09, 1, 0, 0, 0, 0xe8 }, true }, /* patched and restored by the runtime */
		{ XP_SLED_ENTRY, { 0x41, 0xba }, false },
		{ XP_SLED_ENTRY, { 0xcc, 0x09 }, false },
		{ XP_SLED_ENTRY, { 0xeb, 0x0f }, false },
		{ XP_SLED_TAIL_EXIT, { 0xeb, 0x09 }, true },
		{ XP_SLED_ENTRY_ARGS, { 0xeb, 0x09 }, true },
		{ XP_SLED_EXIT, { 0xc3 }, true },
		{ XP_SLED_EXIT, { 0xeb, 0x09 }, false },
		{ XP_SLED_CUSTOM_EVENT, { 0xeb, 0x0f }, true },
		{ XP_SLED_CUSTOM_EVENT, { 0xeb, 0x14 }, false }, /* of map version 0 */
		{ XP_SLED_CUSTOM_EVENT, { 0x66, 0x90 }, false },
		{ XP_SLED_TYPED_EVENT, { 0xeb, 0x14 }, true },
		{ XP_SLED_TYPED_EVENT, { 0xeb, 0x0f }, false },
		{ XP_SLED_KINDS, { 0xeb, 0x09 }, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(xp_sled_intact(cases[i].kind, cases[i].bytes), cases[i].intact);
}

TEST(test_conditions)
{
	uint8_t window[XP_SLED_WINDOW_BYTES] = { 0xeb, 0x09 };
	uint8_t condition;

	for (unsigned int code = 0; code < 16; code++) {
		window[11] = 0x70 + code;
		assert_true(xp_sled_condition(window, &condition));
		assert_int_equal(condition, code);
		window[11] = 0x0f;
		window[12] = 0x80 + code;
		assert_true(xp_sled_condition(window, &condition));
		assert_int_equal(condition, code);
	}
	window[12] = 0x90;
	assert_false(xp_sled_condition(window, &condition));
	window[11] = 0xe9;
	assert_false(xp_sled_condition(window, &condition));
	window[11] = 0xeb;
	assert_false(xp_sled_condition(window, &condition));
}

/* Setup code of clang 14 and 19, and code that neither generates. */
TEST(test_operands)
{
	static const struct {
		enum xp_sled_kind kind;
		const char *bytes;
		int registers[3]; /* first -1: refused */
	} cases[] = {
		{ XP_SLED_CUSTOM_EVENT, "\xeb\x0f\x0f\x1f\x40\x08\x0f\x1f\x40\x08\xe8", { RDI, RSI } },
		{ XP_SLED_CUSTOM_EVENT, "\xeb\x0f\x57\x56\x48\x89\xc7\x48\x89\xce\xe8", { RAX, RCX } },
		{ XP_SLED_CUSTOM_EVENT, "\xeb\x0f\x57\x56\x48\x89\xf7\x48\x89\xfe\xe8", { RSI, RDI } },
		{ XP_SLED_CUSTOM_EVENT, "\xeb\x0f\x0f\x1f\x40\x08\x56\x4c\x89\xfe\xe8", { RDI, R15 } },
		{ XP_SLED_CUSTOM_EVENT, "\xeb\x0f\x56\x57\x48\x89\xc7\x48\x89\xce\xe8", { -1 } }, /* wrong order */
		{ XP_SLED_CUSTOM_EVENT, "\xeb\x0f\x57\x56\x48\x89\xc6\x48\x89\xce\xe8", { -1 } }, /* to %rsi twice */
		{ XP_SLED_CUSTOM_EVENT, "\xeb\x0f\x57\x56\x49\x89\xc7\x48\x89\xce\xe8", { -1 } }, /* to %r15 */
		{ XP_SLED_CUSTOM_EVENT, "\xeb\x0f\x57\x56\x48\x89\x07\x48\x89\xce\xe8", { -1 } }, /* to memory */
		{ XP_SLED_CUSTOM_EVENT, "\xeb\x0f\x57\x56\x48\x8b\xc7\x48\x89\xce\xe8", { -1 } },
		{ XP_SLED_CUSTOM_EVENT, "\xeb\x0f\x57\x56\x48\x89\xc7\x48\x89\xce\x90", { -1 } }, /* no call */
		{ XP_SLED_TYPED_EVENT,
		  "\xeb\x14\x57\x56\x0f\x1f\x40\x08\x48\x89\xc7\x48\x89\xce\xe8",
		  { RAX, RCX, RDX } },
		{ XP_SLED_TYPED_EVENT,
		  "\xeb\x14\x57\x0f\x1f\x40\x08\x52\x48\x89\xd7\x48\x89\xfa\xe8",
		  { RDX, RSI, RDI } },
		{ XP_SLED_TYPED_EVENT,
		  "\xeb\x14\x57\x56\x52\x4c\x89\xc7\x4c\x89\xce\x4c\x89\xd2\xe8",
		  { R8, R9, R10 } },
		{ XP_SLED_TYPED_EVENT, "\xeb\x14\x57\x56\x57\x4c\x89\xc7\x4c\x89\xce\x4c\x89\xd2\xe8", { -1 } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t bytes[XP_SLED_BYTES_MAX] = { 0 };
		uint8_t registers[3];

		memcpy(bytes, cases[i].bytes, cases[i].kind == XP_SLED_TYPED_EVENT ? 15 : 11);
		assert_int_equal(xp_sled_operands(cases[i].kind, bytes, registers), cases[i].registers[0] >= 0);
		for (size_t j = 0; j < 3 && cases[i].registers[0] >= 0; j++)
			assert_int_equal(registers[j], cases[i].registers[j]);
	}
}

TEST(test_malformed_map)
{
	size_t map_header = tiny_section_header(TINY_S_MAP);
	struct tiny_elf elf;

	tiny_example(&elf, 1, 2);
	tiny_section_bytes(&elf, TINY_S_MAP, 6 * 32 - 1);
	assert_elf_refused(&elf, -EINVAL, "not a multiple of 32");

	tiny_example(&elf, 1, 2);
	tiny_section_bytes(&elf, TINY_S_MAP, 0);
	assert_elf_refused(&elf, -ENOENT, "no XRay sleds");

	tiny_example(&elf, 1, 2);
	tiny_section_bytes(&elf, TINY_S_MAP, TINY_BYTES - TINY_MAP + 32);
	assert_elf_refused(&elf, -EINVAL, "beyond the file's end");

	tiny_example(&elf, 1, 2);
	tiny_section_bytes(&elf, TINY_S_MAP, UINT64_MAX - 31);
	assert_elf_refused(&elf, -EINVAL, "beyond the file's end");

	tiny_example(&elf, 1, 2);
	tiny_put(&elf, map_header + 24, UINT64_MAX - 31, 8); /* sh_offset */
	assert_elf_refused(&elf, -EINVAL, "beyond the file's end");

	tiny_example(&elf, 1, 2);
	tiny_put(&elf, map_header + 16, UINT64_MAX - 64, 8); /* sh_addr */
	assert_elf_refused(&elf, -EINVAL, "wraps around");

	tiny_example(&elf, 1, 2);
	tiny_put(&elf, map_header + 4, 8, 4); /* SHT_NOBITS, as in debug files */
	assert_elf_refused(&elf, -ENOENT, "debug information");

	for (unsigned int kind = 6; kind < 256; kind += 83) {
		tiny_example(&elf, 1, 2);
		elf.bytes[TINY_MAP + 64 + 16] = kind;
		assert_elf_refused(&elf, -EINVAL, "sled 2: kind");
	}
	tiny_example(&elf, 1, 2);
	elf.bytes[TINY_MAP + 32 + 18] = 3;
	assert_elf_refused(&elf, -EINVAL, "sled 1: map version 3");
}

TEST(test_absurd_addresses)
{
	static const uint64_t addresses[] = { 0, 1, UINT64_MAX, 1ull << 63, 0x51ff, 0x5400, 0x8400, 0x53f6 };
	struct xp_sled_table *table;
	struct tiny_elf elf;

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		tiny_init(&elf, 1);
		tiny_raw_sled(&elf, addresses[i], 0x5200, 0, 1);
		assert_elf_refused(&elf, -EINVAL, "in no executable part");
	}
	/* The last one that fits; a jump after it is outside the segment. */
	tiny_init(&elf, 1);
	tiny_code(&elf, 0x185, "\xeb\x09\0\0\0\0\0\0\0\0\0\x75", 12);
	tiny_sled(&elf, 0x185, 0, 2, 2);
	tiny_put(&elf, TINY_PHDR + 32, 0x190, 8);
	table = read_good(&elf);
	assert_int_equal(table->sleds[0].file_offset, 0x385);
	assert_true(table->sleds[0].intact);
	assert_false(table->sleds[0].conditional);
	xp_sled_table_free(table);
}

TEST(test_program_headers)
{
	struct tiny_elf elf;

	tiny_example(&elf, 1, 2);
	tiny_put(&elf, TINY_PHDR + 32, UINT64_MAX, 8); /* p_filesz */
	assert_elf_refused(&elf, -EINVAL, "program header 0 reaches beyond");

	tiny_example(&elf, 1, 2);
	tiny_put(&elf, TINY_PHDR + 32, TINY_BYTES - TINY_TEXT + 1, 8);
	assert_elf_refused(&elf, -EINVAL, "program header 0 reaches beyond");

	tiny_example(&elf, 1, 2);
	tiny_put(&elf, TINY_PHDR + 8, UINT64_MAX - 0xff, 8); /* p_offset */
	assert_elf_refused(&elf, -EINVAL, "program header 0 reaches beyond");

	tiny_example(&elf, 1, 2);
	tiny_put(&elf, TINY_PHDR + 16, UINT64_MAX - 0x1ff, 8); /* p_vaddr */
	assert_elf_refused(&elf, -EINVAL, "wraps around");

	tiny_example(&elf, 1, 2);
	tiny_put(&elf, TINY_PHDR + 16, 0x5100, 8);
	assert_elf_refused(&elf, -EINVAL, "differ within a page");

	/* Only bytes in the file count, not p_memsz. */
	tiny_example(&elf, 1, 2);
	tiny_put(&elf, TINY_PHDR + 32, 0xa0, 8);
	assert_elf_refused(&elf, -EINVAL, "sled 5: address 0x52a0");

	tiny_example(&elf, 1, 2);
	tiny_put(&elf, TINY_PHDR + 4, 4, 4); /* not executable */
	assert_elf_refused(&elf, -EINVAL, "sled 0: address 0x5200");

	tiny_example(&elf, 1, 2);
	tiny_put(&elf, 32, 1ull << 40, 8); /* e_phoff */
	assert_elf_refused(&elf, -EINVAL, "");
}

TEST(test_not_for_us)
{
	struct tiny_elf elf;

	assert_refused("", 0, -ENOEXEC, "not an ELF file");
	assert_refused("\x7f"
		       "ELF",
		       4, -ENOEXEC, "");
	assert_refused("#!/bin/sh\n", 10, -ENOEXEC, "not an ELF file");
	assert_refused("!<arch>\n", 8, -ENOEXEC, "not an ELF file");

	tiny_example(&elf, 1, 2);
	tiny_put(&elf, 18, 183, 2);
	assert_elf_refused(&elf, -ENOEXEC, "another machine (183)");

	tiny_example(&elf, 1, 2);
	elf.bytes[5] = 2; /* big-endian */
	assert_elf_refused(&elf, -ENOEXEC, "");

	tiny_example(&elf, 1, 2);
	elf.bytes[4] = 1; /* ELFCLASS32 */
	assert_elf_refused(&elf, -ENOEXEC, "32-bit");

	tiny_example(&elf, 1, 2);
	elf.bytes[16] = 1; /* ET_REL */
	assert_elf_refused(&elf, -ENOEXEC, "neither an executable nor a shared object");

	tiny_example(&elf, 1, 2);
	tiny_put(&elf, 40, 0, 8); /* e_shoff, as sstrip leaves it */
	tiny_put(&elf, 60, 0, 4); /* e_shnum, e_shstrndx */
	assert_elf_refused(&elf, -ENOENT, "no section headers");

	tiny_example(&elf, 1, 2);
	elf.bytes[TINY_SHSTRTAB + 7] = 'y';
	assert_elf_refused(&elf, -ENOENT, "no XRay sleds");
}

/* A truncated file must not crash the reader, or give a partial result. */
TEST(test_truncated)
{
	struct tiny_elf elf;

	tiny_example(&elf, 1, 1);
	for (size_t size = 0; size < TINY_BYTES; size++) {
		/* An allocation of the exact size, so that valgrind and ASan detect reads beyond the end. */
		uint8_t *copy = malloc(size ? size : 1);
		struct xp_sled_table *table;

		assert_non_null(copy);
		memcpy(copy, elf.bytes, size);
		if (!xp_sled_table_read(&table, copy, size))
			assert_true(size >= TINY_SHDR + TINY_SECTIONS * TINY_SHDR_BYTES);
		xp_sled_table_free(table);
		free(copy);
	}
}

/* Zero pages that are never accessed: the file is refused before such a size is read or allocated. */
TEST(test_too_many_sleds)
{
	size_t size = TINY_BYTES + (XP_SLEDS_MAX + 1ull) * 32;
	struct tiny_elf elf;
	uint8_t *memory;

	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED) {
		print_message("skipped: no address space\n");
		skip();
	}
	tiny_example(&elf, 1, 2);
	tiny_put(&elf, tiny_section_header(TINY_S_MAP) + 24, TINY_BYTES, 8);
	tiny_section_bytes(&elf, TINY_S_MAP, (XP_SLEDS_MAX + 1ull) * 32);
	memcpy(memory, elf.bytes, TINY_BYTES);
	assert_refused(memory, size, -EINVAL, "more than the 4194304 that xprof reads");
	munmap(memory, size);
}

TEST(test_names)
{
	struct xp_sled_table *table;
	struct tiny_elf elf;

	tiny_init(&elf, 1);
	for (size_t function = 0x10; function <= 0x60; function += 0x10)
		tiny_sled(&elf, 0x100, function, 0, 2);
	tiny_symbol(&elf, "whole", 0x02, 0x5200, 0x20); /* covers 0x5210 from a lower address */
	tiny_symbol(&elf, "mark", 0x10, 0x5220, 0x10);	/* has no type, though global */
	tiny_symbol(&elf, "local", 0x02, 0x5220, 0x10);
	tiny_symbol(&elf, "weak", 0x22, 0x5220, 0x10);
	tiny_symbol(&elf, "global", 0x12, 0x5220, 0x10);
	tiny_symbol(&elf, "second", 0x12, 0x5220, 0x10);
	tiny_symbol(&elf, "data", 0x11, 0x5230, 0x10);	     /* an object names no code */
	tiny_symbol(&elf, "label", 0x00, 0x5240, 0);	     /* assembler without .type */
	tiny_symbol(&elf, "short", 0x12, 0x5248, 8);	     /* ends where 0x5250 begins */
	tiny_symbol(&elf, "huge", 0x12, 0x5258, UINT64_MAX); /* named after the nearest function only */
	table = read_good(&elf);
	assert_int_equal(table->function_count, 6);
	assert_string_equal(table->functions[0].name, "whole");
	assert_string_equal(table->functions[1].name, "global");
	assert_null(table->functions[2].name);
	assert_string_equal(table->functions[3].name, "label");
	assert_null(table->functions[4].name);
	assert_string_equal(table->functions[5].name, "huge");
	xp_sled_table_free(table);
}

/* The same table as .dynsym, which remains after strip. */
TEST(test_dynamic_names)
{
	struct tiny_elf elf;

	tiny_example(&elf, 1, 2);
	tiny_put(&elf, tiny_section_header(TINY_S_SYMTAB) + 4, 11, 4);
	assert_example(&elf, 2);
}

/* .dynsym names only functions that .symtab does not name. */
TEST(test_both_tables)
{
	size_t header = tiny_section_header(TINY_S_RELA);
	struct xp_sled_table *table;
	struct tiny_elf elf;

	tiny_init(&elf, 1);
	tiny_sled(&elf, 0x100, 0x10, 0, 2);
	tiny_sled(&elf, 0x100, 0x20, 0, 2);
	tiny_symbol(&elf, "static", 0x02, 0x5210, 0x10);
	tiny_symbol(&elf, "dynamic", 0x12, 0x5210, 0x10);
	tiny_symbol(&elf, "export", 0x12, 0x5220, 0x10);
	/* The last two go to a separate table, which replaces the relocations. */
	tiny_section_bytes(&elf, TINY_S_SYMTAB, 2 * 24);
	tiny_section(&elf, TINY_S_RELA, 22, 11, 2, 0, TINY_SYMTAB + 2 * 24, 2 * 24);
	tiny_put(&elf, header + 40, TINY_S_STRTAB, 4);
	tiny_put(&elf, header + 56, 24, 8);
	table = read_good(&elf);
	assert_string_equal(table->functions[0].name, "static");
	assert_string_equal(table->functions[1].name, "export");
	xp_sled_table_free(table);
}

TEST(test_broken_names)
{
	static const struct {
		size_t at;
		uint64_t value;
		size_t bytes;
	} damages[] = {
		{ TINY_SYMTAB + 24, 0xfffffff0, 4 },			     /* st_name */
		{ TINY_SHDR + TINY_S_SYMTAB * TINY_SHDR_BYTES + 40, 99, 4 }, /* sh_link */
		{ TINY_SHDR + TINY_S_SYMTAB * TINY_SHDR_BYTES + 40, TINY_S_TEXT, 4 },
		{ TINY_SHDR + TINY_S_SYMTAB * TINY_SHDR_BYTES + 56, 23, 8 },	     /* sh_entsize */
		{ TINY_SHDR + TINY_S_SYMTAB * TINY_SHDR_BYTES + 24, UINT64_MAX, 8 }, /* sh_offset */
		{ TINY_SHDR + TINY_S_SYMTAB * TINY_SHDR_BYTES + 32, UINT64_MAX, 8 }, /* sh_size */
		{ TINY_SHDR + TINY_S_STRTAB * TINY_SHDR_BYTES + 24, UINT64_MAX, 8 },
		{ TINY_SHDR + TINY_S_STRTAB * TINY_SHDR_BYTES + 32, UINT64_MAX, 8 },
		{ TINY_SHDR + TINY_S_STRTAB * TINY_SHDR_BYTES + 32, 6, 8 }, /* ends before "first" does */
	};

	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		struct xp_sled_table *table;
		struct tiny_elf elf;

		tiny_example(&elf, 1, 2);
		tiny_put(&elf, damages[i].at, damages[i].value, damages[i].bytes);
		table = read_good(&elf);
		assert_null(table->functions[0].name);
		assert_int_equal(table->sled_count, 6);
		xp_sled_table_free(table);
	}
}

TEST(test_build_id)
{
	struct xp_sled_table *table;
	struct tiny_elf elf;

	/* Longer than the maximum size of a table. */
	tiny_example(&elf, 1, 2);
	tiny_put(&elf, TINY_NOTE + 4, 64, 4);
	tiny_put(&elf, TINY_PHDR + 2 * TINY_PHDR_BYTES + 32, 16 + 64, 8);
	table = read_good(&elf);
	assert_int_equal(table->build_id_bytes, 20);
	xp_sled_table_free(table);

	/* Longer than its segment; another note. */
	tiny_example(&elf, 1, 2);
	tiny_put(&elf, TINY_NOTE + 4, 0xfffffff0, 4);
	table = read_good(&elf);
	assert_int_equal(table->build_id_bytes, 0);
	xp_sled_table_free(table);
	tiny_example(&elf, 1, 2);
	elf.bytes[TINY_NOTE + 8] = 1;
	table = read_good(&elf);
	assert_int_equal(table->build_id_bytes, 0);
	xp_sled_table_free(table);
}

static int temporary_file(const void *bytes, size_t size)
{
	char path[] = "/tmp/xprof-test-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(pwrite(fd, bytes, size, 0), size);
	return fd;
}

TEST(test_open)
{
	struct xp_sled_table *table;
	struct tiny_elf elf;
	int fds[2], fd;

	tiny_example(&elf, 1, 2);
	fd = temporary_file(elf.bytes, sizeof(elf.bytes));
	assert_int_equal(lseek(fd, 7, SEEK_SET), 7);
	assert_int_equal(xp_sled_table_open(&table, fd), 0);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 7);
	assert_int_equal(table->sled_count, 6);
	assert_string_equal(table->functions[1].name, "_ZN2ns6secondEv");
	assert_int_equal(table->build_id_bytes, 8);
	xp_sled_table_free(table);
	assert_int_equal(ftruncate(fd, TINY_SHDR), 0);
	assert_int_not_equal(xp_sled_table_open(&table, fd), 0);
	assert_null(table);
	close(fd);

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(xp_sled_table_open(&table, fds[0]), -ENOEXEC);
	assert_string_equal(xp_why(-ENOEXEC), "not a regular file");
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(xp_sled_table_open(&table, -1), -EBADF);
	assert_int_equal(xp_sled_table_read(&table, "", 0), -ENOEXEC);
	xp_sled_table_free(NULL);
}

#define MANY 40000

/* Like tiny_example(), with 40 000 sleds of 40 000 functions, each with a name, after the code. */
static uint8_t *make_many(size_t *size)
{
	size_t text = 0x1000, map = text + MANY * 16, symtab = map + MANY * 32, strtab = symtab + MANY * 24;
	struct tiny_elf elf;
	uint8_t *file;

	*size = strtab + 1 + MANY * 8;
	file = calloc(1, *size);
	assert_non_null(file);
	tiny_init(&elf, 1);
	tiny_program_header(&elf, 0, 1, 5, text, text, MANY * 16);
	tiny_section(&elf, TINY_S_MAP, 7, 1, 2, map, map, MANY * 32);
	tiny_put(&elf, tiny_section_header(TINY_S_SYMTAB) + 24, symtab, 8);
	tiny_section_bytes(&elf, TINY_S_SYMTAB, MANY * 24);
	tiny_put(&elf, tiny_section_header(TINY_S_STRTAB) + 24, strtab, 8);
	tiny_section_bytes(&elf, TINY_S_STRTAB, 1 + MANY * 8);
	memcpy(file, elf.bytes, TINY_BYTES);
	for (size_t i = 0; i < MANY; i++) {
		uint64_t vaddr = text + i * 16, address = vaddr - (map + i * 32), function = address - 8;
		/* Symbol tables are not ordered by address. */
		uint64_t j = i * 7919 % MANY, symbol_vaddr = text + j * 16, one = 1, sixteen = 16;
		uint8_t *symbol = file + symtab + i * 24;
		uint32_t name = 1 + i * 8;
		char text_of_name[9];

		memcpy(file + text + i * 16, "\xeb\x09", 2);
		memcpy(file + map + i * 32, &address, 8);
		memcpy(file + map + i * 32 + 8, &function, 8);
		file[map + i * 32 + 18] = 2;
		memcpy(symbol, &name, 4);
		symbol[4] = 0x12;
		memcpy(symbol + 6, &one, 2);
		memcpy(symbol + 8, &symbol_vaddr, 8);
		memcpy(symbol + 16, &sixteen, 8);
		snprintf(text_of_name, sizeof(text_of_name), "f%06u", (unsigned int)j);
		memcpy(file + strtab + name, text_of_name, 8);
	}
	return file;
}

TEST(test_many)
{
	struct xp_sled_table *table;
	uint8_t *file;
	size_t size;
	int fd;

	file = make_many(&size);
	fd = temporary_file(file, size);
	assert_int_equal(xp_sled_table_open(&table, fd), 0);
	assert_int_equal(table->sled_count, MANY);
	assert_int_equal(table->function_count, MANY);
	for (size_t j = 0; j < MANY; j++) {
		assert_true(table->sleds[j].intact);
		assert_int_equal(table->sleds[j].function_id, j + 1);
		assert_non_null(table->functions[j].name);
		assert_int_equal(strtoul(table->functions[j].name + 1, NULL, 10), j);
	}
	xp_sled_table_free(table);
	close(fd);
	free(file);
}
