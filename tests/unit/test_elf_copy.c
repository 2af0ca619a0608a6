// SPDX-License-Identifier: BSD-2-Clause
/* A hostile file must not keep xp_elf_copy() busy. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "elf/copy.h"

#define SECTIONS 60000
#define NAMES_BYTES (16u << 20)
/* Far more than it needs, and far less than SECTIONS searches of the table. */
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

static void test_names_without_an_end(void **state)
{
	int from = hostile_file(), to = memfd_create("copy", MFD_CLOEXEC);
	uint64_t bytes = 1u << 30;

	(void)state;
	alarm(SECONDS_MAX);
	assert_int_equal(xp_elf_copy(from, to, &bytes), 0);
	alarm(0);
	assert_int_equal(lseek(to, 0, SEEK_END), lseek(from, 0, SEEK_END));
	close(from);
	close(to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_without_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
