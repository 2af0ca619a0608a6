// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes the stub's page an ELF file, so that every unwinder can unwind from it and name it: one symbol, and one unwind
 * rule for all code that has not pushed anything.
 *
 * Source of the format: the ELF64 specification; .eh_frame: Linux Standard Base, Core, chapter 10.6, and DWARF 4, 6.4.
 */
#include <elf.h>
#include <string.h>

#include "arch/x86_64/stub.h"

#define EH_FRAME 0x480u
#define SYMBOLS 0x4c0u
#define NAMES 0x500u
#define SECTION_NAMES 0x520u
#define SECTIONS 0x580u

/* Also the stub's version: a stub with other bytes belongs to another version of xprof. */
static const char names[] = "\0xprof_stub_2";
static const char section_names[] = "\0.text\0.eh_frame\0.symtab\0.strtab\0.shstrtab";

/* At EH_FRAME: a CIE, an FDE, the terminator. */
static const uint8_t eh_frame[] = {
	0x14, 0,    0, 0,    0,	   0,	 0,    0,    1,	   'z',	 'R',  0,    1, 0x78, 16, 1, 0x1b, /* pcrel, sdata4 */
	0x0c, 7,    8, 0x90, 1,	   0,	 0, /* CFA = rsp + 8, the return address at CFA - 8 */
	0x18, 0,    0, 0,    0x1c, 0,	 0,    0,    0x60, 0xfc, 0xff, 0xff, /* XP_STUB_TEXT - (EH_FRAME + 0x20) */
	0x40, 0x03, 0, 0,    0,	   0x03, 0x12, 0x03, 0x0e, 16, /* from XP_STUB_COUNT + 0x12 on CFA = rsp + 16 */
	0x63, 0x0e, 8, 0,    0,	   0,	 0,    0,    0,	   0,  /* from + 0x35 on CFA = rsp + 8 */
};
_Static_assert(sizeof(eh_frame) <= SYMBOLS - EH_FRAME, "room for it");

enum section {
	SECTION_TEXT = 1,
	SECTION_EH_FRAME,
	SECTION_SYMBOLS,
	SECTION_NAMES_OF_SYMBOLS,
	SECTION_NAMES_OF_SECTIONS,
	SECTION_COUNT,
};

void xp_stub_make_elf(uint8_t page[XP_STUB_BYTES])
{
	const Elf64_Ehdr header = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_shoff = SECTIONS,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTION_COUNT,
		.e_shstrndx = SECTION_NAMES_OF_SECTIONS,
	};
	const Elf64_Phdr load = {
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_filesz = XP_STUB_BYTES,
		.p_memsz = XP_STUB_BYTES,
		.p_align = XP_STUB_BYTES,
	};
	const Elf64_Sym symbols[] = {
		{ 0 },
		{ 1, ELF64_ST_INFO(STB_LOCAL, STT_FUNC), STV_DEFAULT, SECTION_TEXT, XP_STUB_TEXT, XP_STUB_TEXT_BYTES },
	};
	const Elf64_Shdr sections[SECTION_COUNT] = {
		[SECTION_TEXT] = { 1, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, XP_STUB_TEXT, XP_STUB_TEXT,
				   XP_STUB_TEXT_BYTES, 0, 0, 64, 0 },
		[SECTION_EH_FRAME] = { 7, SHT_PROGBITS, SHF_ALLOC, EH_FRAME, EH_FRAME, sizeof(eh_frame), 0, 0, 8, 0 },
		[SECTION_SYMBOLS] = { 17, SHT_SYMTAB, 0, 0, SYMBOLS, sizeof(symbols), SECTION_NAMES_OF_SYMBOLS, 2, 8,
				      sizeof(Elf64_Sym) },
		[SECTION_NAMES_OF_SYMBOLS] = { 25, SHT_STRTAB, 0, 0, NAMES, sizeof(names), 0, 0, 1, 0 },
		[SECTION_NAMES_OF_SECTIONS] = { 33, SHT_STRTAB, 0, 0, SECTION_NAMES, sizeof(section_names), 0, 0, 1,
						0 },
	};

	memset(page, 0, XP_STUB_BYTES);
	memcpy(page, &header, sizeof(header));
	memcpy(page + sizeof(header), &load, sizeof(load));
	memcpy(page + EH_FRAME, eh_frame, sizeof(eh_frame));
	memcpy(page + SYMBOLS, symbols, sizeof(symbols));
	memcpy(page + NAMES, names, sizeof(names));
	memcpy(page + SECTION_NAMES, section_names, sizeof(section_names));
	memcpy(page + SECTIONS, sections, sizeof(sections));
}
