// SPDX-License-Identifier: BSD-2-Clause
/* A hostile file must not keep xp_elf_copy() busy. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

#include "base/util.h"
#include "elf/copy.h"

#define SECTIONS 60000
#define NAMES_BYTES (16u << 20)
/* Far more time than needed, and far less than SECTIONS searches of the table. */
#define SECONDS_MAX 20

/* Many sections with names at the start of a long table without a NUL. */
static int hostile_file(void)
{
	int fd = memfd_create("hostile", MFD_CLOEXEC);
	Elf64_Shdr *sections = calloc(SECTIONS, sizeof(*sections));
	char *names = malloc(NAMES_BYTES);
	uint64_t names_offset = sizeof(Elf64_Ehdr) + SECTIONS * sizeof(*sections);
	Elf64_Ehdr header = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(header),
		.e_shoff = sizeof(header),
		.e_shentsize = sizeof(*sections),
		.e_shnum = SECTIONS,
		.e_shstrndx = 1,
	};

	assert_true(fd >= 0 && sections && names);
	memset(names, 'a', NAMES_BYTES);
	for (size_t i = 1; i < SECTIONS; i++)
		sections[i] = (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_NOBITS };
	sections[1].sh_type = SHT_STRTAB;
	sections[1].sh_offset = names_offset;
	sections[1].sh_size = NAMES_BYTES;
	assert_int_equal(xp_pwrite_all(fd, &header, sizeof(header), 0), 0);
	assert_int_equal(xp_pwrite_all(fd, sections, SECTIONS * sizeof(*sections), sizeof(header)), 0);
	assert_int_equal(xp_pwrite_all(fd, names, NAMES_BYTES, (off_t)names_offset), 0);
	free(sections);
	free(names);
	return fd;
}

TEST(test_names_without_an_end)
{
	int from = hostile_file(), to = memfd_create("copy", MFD_CLOEXEC);
	uint64_t bytes = 1u << 30;
	struct xp_elf_copied copied;

	alarm(SECONDS_MAX);
	assert_int_equal(xp_elf_copy(from, to, &copied, &bytes), 0);
	alarm(0);
	assert_int_equal(lseek(to, 0, SEEK_END), lseek(from, 0, SEEK_END));
	close(from);
	close(to);
}

/* A binary of one executable segment. */
static int binary(uint64_t vaddr, uint64_t align)
{
	struct {
		Elf64_Ehdr header;
		Elf64_Phdr segments[2];
		char text[0x1000];
	} file = {
		.header = {
			.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_DYN,
			.e_machine = EM_X86_64,
			.e_version = EV_CURRENT,
			.e_ehsize = sizeof(Elf64_Ehdr),
			.e_phoff = sizeof(Elf64_Ehdr),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 2,
		},
		.segments = {
			{ .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 0x100, .p_memsz = 0x100, .p_align = align },
			{ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = vaddr & 0xfff, .p_vaddr = vaddr,
			  .p_filesz = 0x100, .p_memsz = 0x100, .p_align = align },
		},
	};
	int fd = memfd_create("binary", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(xp_pwrite_all(fd, &file, sizeof(file), 0), 0);
	return fd;
}

static uint64_t align_in_copy(uint64_t vaddr, uint64_t align)
{
	int from = binary(vaddr, align), to = memfd_create("copy", MFD_CLOEXEC);
	uint64_t bytes = 1u << 20;
	struct xp_elf_copied copied;
	Elf64_Phdr segments[2];

	assert_true(to >= 0);
	assert_int_equal(xp_elf_copy(from, to, &copied, &bytes), 0);
	assert_true(copied.has_code && !copied.build_id_bytes);
	assert_int_equal(copied.exec_vaddr, vaddr);
	assert_int_equal(copied.exec_offset, vaddr & 0xfff);
	assert_int_equal(pread(to, segments, sizeof(segments), sizeof(Elf64_Ehdr)), sizeof(segments));
	assert_int_equal(segments[0].p_align, align);
	assert_int_equal(segments[1].p_vaddr, vaddr);
	close(from);
	close(to);
	return segments[1].p_align;
}

/* All versions of `go tool pprof` take p_vaddr for the start of a copy. */
TEST(test_start)
{
	assert_int_equal(align_in_copy(0x1000, 0x1000), 0x1000);
	assert_int_equal(align_in_copy(0x16d0, 0x1000), 1);
	assert_int_equal(align_in_copy(0x201000, 0x200000), 1);
	assert_int_equal(align_in_copy(0x16d0, 0), 0);
	assert_int_equal(align_in_copy(0x16d0, 1), 1);
}
