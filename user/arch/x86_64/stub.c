// SPDX-License-Identifier: BSD-2-Clause
#include "arch/x86_64/stub.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/code_places.h"
#include "base/util.h"
#include "xprof/event.h"

#define SLOT_BYTES 64u /* a cache line */
_Static_assert(XP_STUB_COUNT == XP_STUB_TEXT + XP_STUB_SLOTS * SLOT_BYTES, "behind the slots");
_Static_assert(XP_STUB_ANCHOR == XP_STUB_COUNT + SLOT_BYTES, "behind the counting slot");
_Static_assert(XP_STUB_MEMORY == XP_STUB_ANCHOR + SLOT_BYTES, "behind the anchor");
_Static_assert(XP_STUB_TEXT_BYTES == XP_STUB_MEMORY_EVENT + 2 * XP_STUB_MEMORY_EVENT_BYTES - XP_STUB_TEXT,
	       "the last slot");
_Static_assert(XP_STUB_RINGS == XP_STUB_ROOM, "behind the counters");

#define NOP XP_STUB_NOP
#define RET 0xc3
/* cmpb $0,flag(%rip); in children, je skips the first nop and its ret and reaches the children's nop and ret. */
#define GUARD_BYTES 9
#define NOP_RET_BYTES 2

static bool is_guarded(enum xp_stub_slot slot)
{
	return slot == XP_STUB_CALL || slot == XP_STUB_ARGS;
}

uint32_t xp_stub_entry(enum xp_stub_slot slot)
{
	return XP_STUB_TEXT + slot * SLOT_BYTES;
}

uint32_t xp_stub_probe(enum xp_stub_slot slot)
{
	return xp_stub_entry(slot) + (is_guarded(slot) ? GUARD_BYTES : 0);
}

uint32_t xp_stub_child_probe(enum xp_stub_slot slot)
{
	return xp_stub_probe(slot) + (is_guarded(slot) ? NOP_RET_BYTES : 0);
}

bool xp_stub_is_slot(uint64_t offset)
{
	if (offset >= XP_STUB_MEMORY_EVENT)
		return offset < XP_STUB_TEXT + XP_STUB_TEXT_BYTES &&
		       (offset - XP_STUB_MEMORY_EVENT) % XP_STUB_MEMORY_EVENT_BYTES == 0;
	if (offset >= XP_STUB_TAKE_BACK)
		return (offset - XP_STUB_TAKE_BACK) % XP_STUB_TAKE_BACK_BYTES == 0;
	if (offset >= XP_STUB_MEMORY)
		return (offset - XP_STUB_MEMORY) % XP_STUB_MEMORY_BYTES == 0;
	return offset >= XP_STUB_TEXT && offset < XP_STUB_ANCHOR && (offset - XP_STUB_TEXT) % SLOT_BYTES == 0;
}

static void put_probe(uint8_t *code)
{
	code[0] = NOP;
	code[1] = RET;
}

static void make_slot(uint8_t *page, enum xp_stub_slot slot)
{
	if (is_guarded(slot)) {
		uint8_t *code = page + xp_stub_entry(slot);
		/* relative to the end of the cmpb */
		uint32_t distance = XP_STUB_FLAG - (xp_stub_entry(slot) + 7);

		*code++ = 0x80;
		*code++ = 0x3d;
		memcpy(code, &distance, sizeof(distance));
		code += sizeof(distance);
		*code++ = 0;
		*code++ = 0x74;
		*code++ = NOP_RET_BYTES;
	}
	put_probe(page + xp_stub_probe(slot));
	put_probe(page + xp_stub_child_probe(slot));
}

/*
 * The CPU number is in the limit of a segment; the vDSO's getcpu() reads it the same way (vdso_read_cpunode(),
 * arch/x86/include/asm/segment.h). If a future kernel stores something else there, threads only share a counter.
 *
 * A thread that was inside the sled while the sled was rewritten may pass a word of another kind; the slot does not
 * count it.
 */
static void make_counting_slot(uint8_t *code)
{
	static const uint8_t bytes[] = {
		0x41, 0x81, 0xea, 0,	0,    0, 0xff, /* sub $XP_EVENT_NONE << XP_FN_BITS,%r10d */
		0x41, 0x81, 0xfa, 0xfc, 0x01, 0, 0,    /* cmp $0x1fc,%r10d */
		0x77, 0x25,			       /* ja the ret */
		0x41, 0x53,			       /* push %r11: some calling conventions pass arguments in it */
		0x41, 0xbb, 0x7b, 0,	0,    0,       /* mov $0x7b,%r11d: the segment's selector */
		0x45, 0x0f, 0x03, 0xdb,		       /* lsl %r11d,%r11d */
		0x41, 0x83, 0xe3, 0x3f,		       /* and $0x3f,%r11d */
		0x41, 0xc1, 0xe3, 0x09,		       /* shl $9,%r11d */
		0x45, 0x01, 0xd3,		       /* add %r10d,%r11d */
		0x4c, 0x8d, 0x15, 0,	0,    0, 0,    /* lea counters(%rip),%r10 */
		0xf0, 0x43, 0xff, 0x04, 0x1a,	       /* lock incl (%r10,%r11) */
		0x41, 0x5b,			       /* pop %r11 */
		0xc3,				       /* ret */
	};
	const size_t lea_end = sizeof(bytes) - 8;
	uint32_t distance = (uint32_t)(XP_STUB_COUNTERS - (XP_STUB_COUNT + lea_end));

	_Static_assert(XP_STUB_SHARDS == 0x3f + 1 && 4 * XP_STUB_COUNTERS_MAX == 1 << 9, "as in the code");
	_Static_assert((uint32_t)XP_EVENT_NONE << XP_FN_BITS == 0xff000000, "as in the code");
	_Static_assert(sizeof(bytes) <= SLOT_BYTES, "a slot");
	memcpy(code, bytes, sizeof(bytes));
	memcpy(code + lea_end - sizeof(distance), &distance, sizeof(distance));
}

/*
 * ---- the file around the code ----
 *
 * This is an ELF file, so that every unwinder can unwind from it and name it: one symbol, and one unwind rule for
 * all code that has not pushed anything.
 *
 * Source of the format: the ELF64 specification; .eh_frame: Linux Standard Base, Core, chapter 10.6, and DWARF 4, 6.4.
 */
#define EH_FRAME 0x800u
#define SYMBOLS 0xa00u
#define NAMES 0xa40u
#define SECTION_NAMES 0xa60u
#define SECTIONS 0xac0u
#define EH_FRAME_BYTES (SYMBOLS - EH_FRAME)

/* The suffix is the stub's version: change it with the bytes of the stub. */
static const char names[] = "\0xprof_stub_9";
static const char section_names[] = "\0.text\0.eh_frame\0.symtab\0.strtab\0.shstrtab";

#define LENGTH 0, 0, 0, 0
#define ADDRESS 0, 0, 0, 0

static const uint8_t cie[] = {
	0x14, 0, 0, 0,	  0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, /* pcrel, sdata4 */
	0x0c, 7, 8, 0x90, 1, 0, 0, /* CFA = rsp + 8, the return address at CFA - 8 */
};
/* The unwind rows of the counting slot. The rows of the slots that record in memory follow. */
static const uint8_t fde[] = {
	LENGTH, sizeof(cie) + 4,
	0,	0,
	0,	ADDRESS,
	LENGTH, 0,
	0x03,	0x12,
	0x01,	0x0e,
	16, /* from XP_STUB_COUNT + 0x12 on CFA = rsp + 16 */
	0x63,	0x0e,
	8, /* from + 0x35 on CFA = rsp + 8 */
};
_Static_assert(XP_STUB_COUNT - XP_STUB_TEXT == 0x100, "as in the row");
#define FDE_START 8 /* offset of the addresses */
#define FDE_RANGE 12
#define COUNT_END (XP_STUB_COUNT + 0x35)
_Static_assert(sizeof(cie) + sizeof(fde) + XP_STUB_MEMORY_CFI_BYTES + 8 <= EH_FRAME_BYTES, "room for them");

static void put32(uint8_t *to, uint32_t value)
{
	memcpy(to, &value, sizeof(value));
}

static void make_eh_frame(uint8_t *page)
{
	uint8_t *start = page + EH_FRAME + sizeof(cie);
	uint8_t *end;

	memcpy(page + EH_FRAME, cie, sizeof(cie));
	memcpy(start, fde, sizeof(fde));
	put32(start + FDE_START, (uint32_t)(XP_STUB_TEXT - (EH_FRAME + sizeof(cie) + FDE_START)));
	put32(start + FDE_RANGE, XP_STUB_TEXT_BYTES);
	end = xp_stub_put_memory_cfi(start + sizeof(fde), COUNT_END);
	/* DW_CFA_nop up to a multiple of 4. The zeros after it are the terminator. */
	put32(start, ((uint32_t)(end - start) + 3) / 4 * 4 - 4);
}

enum section {
	SECTION_TEXT = 1,
	SECTION_EH_FRAME,
	SECTION_SYMBOLS,
	SECTION_NAMES_OF_SYMBOLS,
	SECTION_NAMES_OF_SECTIONS,
	SECTION_COUNT,
};

static void make_elf(uint8_t page[XP_STUB_BYTES])
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
		[SECTION_EH_FRAME] = { 7, SHT_PROGBITS, SHF_ALLOC, EH_FRAME, EH_FRAME, EH_FRAME_BYTES, 0, 0, 8, 0 },
		[SECTION_SYMBOLS] = { 17, SHT_SYMTAB, 0, 0, SYMBOLS, sizeof(symbols), SECTION_NAMES_OF_SYMBOLS, 2, 8,
				      sizeof(Elf64_Sym) },
		[SECTION_NAMES_OF_SYMBOLS] = { 25, SHT_STRTAB, 0, 0, NAMES, sizeof(names), 0, 0, 1, 0 },
		[SECTION_NAMES_OF_SECTIONS] = { 33, SHT_STRTAB, 0, 0, SECTION_NAMES, sizeof(section_names), 0, 0, 1,
						0 },
	};

	memset(page, 0, XP_STUB_BYTES);
	memcpy(page, &header, sizeof(header));
	memcpy(page + sizeof(header), &load, sizeof(load));
	make_eh_frame(page);
	memcpy(page + SYMBOLS, symbols, sizeof(symbols));
	memcpy(page + NAMES, names, sizeof(names));
	memcpy(page + SECTION_NAMES, section_names, sizeof(section_names));
	memcpy(page + SECTIONS, sections, sizeof(sections));
}

void xp_stub_make(uint8_t page[XP_STUB_BYTES])
{
	make_elf(page);
	memset(page + XP_STUB_TEXT, 0xcc, XP_STUB_TEXT_BYTES); /* int3: nothing may execute these bytes */
	for (int slot = 0; slot < XP_STUB_SLOTS; slot++)
		make_slot(page, (enum xp_stub_slot)slot);
	make_counting_slot(page + XP_STUB_COUNT);
	put_probe(page + XP_STUB_ANCHOR);
	xp_stub_make_memory(page);
}

bool xp_stub_verify(int fd)
{
	uint8_t found[XP_STUB_BYTES + 1], wanted[XP_STUB_BYTES];
	int seals = fcntl(fd, F_GET_SEALS);

	xp_stub_make(wanted);
	return seals >= 0 && (seals & F_SEAL_WRITE) && pread(fd, found, sizeof(found), 0) == XP_STUB_BYTES &&
	       !memcmp(found, wanted, XP_STUB_BYTES);
}

bool xp_stub_is_named(const char *path)
{
	return !strcmp(path, XP_STUB_PATH);
}

int xp_stub_open(void)
{
	uint8_t page[XP_STUB_BYTES];

	xp_stub_make(page);
	return xp_memfd_make(XP_STUB_NAME, page, sizeof(page));
}

uint8_t *xp_stub_map(int fd)
{
	uint8_t *room = mmap(NULL, XP_STUB_MAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (room == MAP_FAILED)
		return NULL;
	room[XP_STUB_FLAG] = 1;
	*(uint64_t *)(void *)(room + XP_STUB_TABLE) = (uintptr_t)room + XP_STUB_RINGS + XP_CALL_TABLES;
	if (madvise(room + XP_STUB_FLAG, XP_STUB_MAP_BYTES - XP_STUB_FLAG, MADV_WIPEONFORK) ||
	    mmap(room, XP_STUB_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
		munmap(room, XP_STUB_MAP_BYTES);
		return NULL;
	}
	return room;
}
