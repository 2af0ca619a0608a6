// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the making of unwind tables: the input is the .eh_frame, or when its first byte is odd the .debug_frame, of an
 * ELF file; when it is 2, with an .eh_frame_hdr in front, whose size is the next byte. Whatever is made of it must be a
 * table that can be opened.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cfi_build.h"
#include "cfi_table.h"
#include "elf_build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

/* As seed_cfi.py links. */
enum { TEXT = 0x1000, TEXT_BYTES = 0x1000, FRAMES = 0x2000, INDEX = 0x8000 };

static int elf_of(const uint8_t *data, size_t size)
{
	static uint8_t text[TEXT_BYTES];
	const size_t index_bytes = data[0] == 2 && data[1] < size - 2 ? data[1] : 0;
	const uint8_t *frames = data + (data[0] == 2 ? 2 + index_bytes : 1);
	const struct xp_elf_section sections[] = {
		{ .name = ".text",
		  .type = SHT_PROGBITS,
		  .flags = SHF_ALLOC | SHF_EXECINSTR,
		  .addr = TEXT,
		  .size = sizeof(text),
		  .align = 4096,
		  .bytes = text,
		  .is_loaded = true },
		{ .name = data[0] & 1 ? ".debug_frame" : ".eh_frame",
		  .type = SHT_PROGBITS,
		  .addr = data[0] & 1 ? 0 : FRAMES,
		  .size = size - (size_t)(frames - data),
		  .align = 8,
		  .bytes = frames },
		{ .name = ".eh_frame_hdr",
		  .type = SHT_PROGBITS,
		  .addr = INDEX,
		  .size = index_bytes,
		  .align = 8,
		  .bytes = data + 2 },
	};
	int fd = memfd_create("elf", 0);

	CHECK(fd >= 0 && !xp_elf_write(fd, sections, index_bytes ? 3 : 2));
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xp_cfi_table *table;
	int fd, to;

	if (size < 3)
		return 0;
	fd = elf_of(data, size);
	to = memfd_create("table", MFD_ALLOW_SEALING);
	CHECK(to >= 0);
	if (!xp_cfi_build(fd, NULL, 0, UINT32_MAX, to)) {
		CHECK(!fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK));
		CHECK(!xp_cfi_table_open(&table, to));
		CHECK(xp_cfi_table_header(table)->code_bytes[XP_CFI_KNOWN] <= TEXT_BYTES);
		xp_cfi_table_free(table);
	}
	close(to);
	close(fd);
	return 0;
}
