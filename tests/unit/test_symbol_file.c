// SPDX-License-Identifier: BSD-2-Clause
#include "unit.h"

#include "elf/symbol_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"
#include "elf/build.h"

#define START 0x7fff00000000ull

static uint8_t *file;
static size_t size;

static void write_file(uint64_t start, uint64_t end, const struct xp_sym *syms, size_t count)
{
	int fd = memfd_create("symbols", 0);

	assert_true(fd >= 0);
	assert_int_equal(xp_symbol_file_write(fd, start, end, syms, count), 0);
	size = lseek(fd, 0, SEEK_END);
	free(file);
	file = malloc(size);
	assert_non_null(file);
	assert_int_equal(pread(fd, file, size, 0), size);
	close(fd);
}

static const Elf64_Shdr *find_section(const char *name)
{
	const Elf64_Ehdr *header = (const void *)file;
	const Elf64_Shdr *sections = (const void *)(file + header->e_shoff);
	const char *names = (const char *)file + sections[header->e_shstrndx].sh_offset;

	assert_int_equal(header->e_shoff + header->e_shnum * sizeof(*sections), size);
	for (size_t i = 1; i < header->e_shnum; i++)
		if (!strcmp(names + sections[i].sh_name, name))
			return &sections[i];
	fail_msg("no section %s", name);
	return NULL;
}

/* Returns the symbols except the empty one, as lines "address+size name". */
static void assert_symbols(const char *expected)
{
	const Elf64_Shdr *symtab = find_section(".symtab"), *strtab = find_section(".strtab");
	char text[4096] = "";
	size_t used = 0;

	assert_int_equal(symtab->sh_entsize, sizeof(Elf64_Sym));
	assert_int_equal(symtab->sh_info, 1);
	assert_int_equal(symtab->sh_link, 3);
	for (size_t i = 1; i < symtab->sh_size / sizeof(Elf64_Sym); i++) {
		const Elf64_Sym *symbol = (const Elf64_Sym *)(file + symtab->sh_offset) + i;
		int type = symbol->st_size ? STT_FUNC : STT_NOTYPE;

		assert_true(symbol->st_name < strtab->sh_size);
		assert_int_equal(symbol->st_shndx, 1);
		assert_int_equal(symbol->st_info, ELF64_ST_INFO(STB_GLOBAL, type));
		used +=
		    snprintf(text + used, sizeof(text) - used, "%llx+%llx %s\n", (unsigned long long)symbol->st_value,
			     (unsigned long long)symbol->st_size, file + strtab->sh_offset + symbol->st_name);
	}
	assert_string_equal(text, expected);
}

/* The code is where the mapping line says, in the only segment and in the section. */
TEST(test_text)
{
	const struct xp_sym syms[] = { { START, 0x100, "one" } };
	const Elf64_Ehdr *header;
	const Elf64_Phdr *segment;
	const Elf64_Shdr *section;

	write_file(START, START + 0x100, syms, 1);
	header = (const void *)file;
	assert_memory_equal(header->e_ident, ELFMAG "\2\1\1", 7);
	assert_int_equal(header->e_type, ET_DYN);
	assert_int_equal(header->e_machine, EM_X86_64);
	assert_int_equal(header->e_phnum, 1);
	assert_int_equal(header->e_phentsize, sizeof(Elf64_Phdr));
	segment = (const void *)(file + header->e_phoff);
	assert_int_equal(segment->p_type, PT_LOAD);
	assert_int_equal(segment->p_flags, PF_R | PF_X);
	assert_int_equal(segment->p_offset, XP_SYM_ELF_OFFSET);
	assert_int_equal(segment->p_vaddr, XP_SYM_ELF_OFFSET);
	assert_int_equal(segment->p_filesz, 0x100);
	assert_int_equal(segment->p_memsz, 0x100);
	assert_int_equal(segment->p_align, 0x1000);
	section = find_section(".text");
	assert_int_equal(section->sh_type, SHT_PROGBITS);
	assert_int_equal(section->sh_flags, SHF_ALLOC | SHF_EXECINSTR);
	assert_int_equal(section->sh_addr, XP_SYM_ELF_OFFSET);
	assert_int_equal(section->sh_offset, XP_SYM_ELF_OFFSET);
	assert_int_equal(section->sh_size, 0x100);
}

/* Byte for byte from "Go 1.2 Runtime Symbol Information" and debug/gosym: two functions. */
TEST(test_go_table)
{
	static const uint8_t
	    expected
		[] = {
			0xfb, 0xff, 0xff, 0xff, 0,    0,    1,	 8, /* magic, quantum 1, pointers of 8 */
			2,    0,    0,	  0,	0,    0,    0,	 0, /* functions */
			0x00, 0x10, 0,	  0,	0,    0,    0,	 0,   0x3c, 0,	 0,   0,   0,	0,   0, 0, /* entry,
													      offset */
			0x80, 0x10, 0,	  0,	0,    0,    0,	 0,   0x64, 0,	 0,   0,   0,	0,   0, 0, /* entry,
													      offset */
			0x00, 0x11, 0,	  0,	0,    0,    0,	 0,   0x8c, 0,	 0,   0, /* end, offset of the files */
			0x00, 0x10, 0,	  0,	0,    0,    0,	 0,   0x98, 0,	 0,   0,   0,	0,   0, 0, 0,
			0,    0,    0, /* 0x3c: entry, name, args, frame */
			0x90, 0,    0,	  0,	0x90, 0,    0,	 0,   0x90, 0,	 0,   0,   0,	0,   0, 0, 0,
			0,    0,    0, /* pcsp, pcfile, pcln, counts */
			0x80, 0x10, 0,	  0,	0,    0,    0,	 0,   0x9c, 0,	 0,   0,   0,	0,   0, 0, 0,
			0,    0,    0, /* 0x64 */
			0x90, 0,    0,	  0,	0x90, 0,    0,	 0,   0x90, 0,	 0,   0,   0,	0,   0, 0, 0,
			0,    0,    0,	  1,	0,    0,    0, /* 0x8c: no files */
			2,    0xff, 0xff, 0xff, 0xff, 0x0f, 0, /* 0x90: value 0 for 2^32 - 1 bytes */
			0,    'o',  'n',  'e',	0,    't',  'w', 'o', 0,    '[', 'e', 'n', 'd', ']', 0, /* 0x97 */
		};
	const struct xp_sym syms[] = { { START, 0x80, "one" }, { START + 0x80, 0x80, "two" } };
	const Elf64_Shdr *section;

	write_file(START, START + 0x100, syms, 2);
	section = find_section(".gopclntab");
	assert_int_equal(section->sh_type, SHT_PROGBITS);
	assert_int_equal(section->sh_flags, 0);
	assert_int_equal(section->sh_size, sizeof(expected));
	assert_memory_equal(file + section->sh_offset, expected, sizeof(expected));
}

/* Gaps are filled, long symbols are shortened, symbols without a size extend to the next one. */
TEST(test_symbols)
{
	const struct xp_sym syms[] = {
		{ START + 0x10, 0x10, "_ZN1a1bEv" }, { START + 0x30, 0, "open" },
		{ START + 0x50, 0x1000, "long" },    { START + 0x60, UINT64_MAX, "longer" },
		{ START + 0x80, 0x20, "last" },
	};

	write_file(START, START + 0x100, syms, XP_ARRAY_SIZE(syms));
	assert_symbols("1000+10 [unknown]\n1010+10 _ZN1a1bEv\n1020+10 [unknown]\n1030+20 open\n1050+10 long\n"
		       "1060+20 longer\n1080+20 last\n10a0+60 [unknown]\n1100+0 [end]\n");
	write_file(START, START + 0x10, NULL, 0);
	assert_symbols("1000+10 [unknown]\n1010+0 [end]\n");
}

/* Names come from the target: readers get no spaces, terminals no control characters. */
TEST(test_names)
{
	const struct xp_sym syms[] = {
		{ START, 1, "" },
		{ START + 1, 1, "a b  c" },
		{ START + 2, 1, "\x1b[2J\n\xff" },
		{ START + 3, 1, "caf\xc3\xa9" },
		{ START + 4, 1,
		  "\xc2\x9b"
		  "6n" },
	};

	write_file(START, START + 5, syms, XP_ARRAY_SIZE(syms));
	assert_symbols(
	    "1000+1 [unknown]\n1001+1 a_b__c\n1002+1 ?[2J??\n1003+1 caf\xc3\xa9\n1004+1 ?6n\n1005+0 [end]\n");
}

TEST(test_hole)
{
	const struct xp_sym syms[] = { { START + 0x3fffff00, 0x10, "far" } };
	int fd = memfd_create("symbols", 0);

	assert_true(fd >= 0);
	assert_int_equal(xp_symbol_file_write(fd, START, START + 0x40000000, syms, 1), 0);
	assert_true(lseek(fd, 0, SEEK_END) > 0x40000000);
	assert_int_equal(lseek(fd, 0x1000, SEEK_DATA), 0x40001000);
	close(fd);
}

static void refuse(int expected, uint64_t start, uint64_t end, const struct xp_sym *syms, size_t count)
{
	assert_int_equal(xp_symbol_file_write(-1, start, end, syms, count), expected);
}

TEST(test_refused)
{
	const struct xp_sym same[] = { { START, 1, "a" }, { START, 1, "b" } };
	const struct xp_sym back[] = { { START + 1, 1, "a" }, { START, 1, "b" } };
	int fd = open("/dev/full", O_WRONLY);

	refuse(-EINVAL, START, START, NULL, 0);
	refuse(-EINVAL, START + 1, START, NULL, 0);
	refuse(-EINVAL, START, START + 0x10, same, 2);
	refuse(-EINVAL, START, START + 0x10, back, 2);
	refuse(-EINVAL, START + 1, START + 0x10, same, 1);
	refuse(-EINVAL, START - 0x10, START, same, 1);
	refuse(-EFBIG, START, START + (1ull << 32), same, 1);
	refuse(-EBADF, START, START + 0x10, same, 1);
	assert_int_equal(xp_symbol_file_write(fd, START, START + 0x10, same, 1), -ENOSPC);
	close(fd);
}

/* st_name has 32 bits; an overflow is detected before memory is allocated. */
TEST(test_too_long)
{
	enum { NAMES = 4097, NAME_BYTES = 1 << 20 };
	struct xp_sym *syms = calloc(NAMES, sizeof(*syms));
	char *name = malloc(NAME_BYTES);

	assert_non_null(syms);
	assert_non_null(name);
	memset(name, 'a', NAME_BYTES - 1);
	name[NAME_BYTES - 1] = 0;
	for (size_t i = 0; i < NAMES; i++)
		syms[i] = (struct xp_sym){ START + i, 1, name };
	refuse(-EFBIG, START, START + NAMES, syms, NAMES);
	free(name);
	free(syms);
}

TEST(test_too_many_sections)
{
	const struct xp_elf_section sections[XP_ELF_SECTIONS_MAX + 1] = { { .name = "a" } };

	assert_int_equal(xp_elf_write(-1, sections, XP_ARRAY_SIZE(sections)), -EINVAL);
}
