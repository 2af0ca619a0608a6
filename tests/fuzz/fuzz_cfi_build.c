// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the building of unwind tables: the input is the .eh_frame of an ELF file, or the .debug_frame if its first
 * byte is odd. If the first byte is 2, an .eh_frame_hdr precedes, whose size is the next byte. The result must be a
 * table that can be opened.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

#include "../unit/cfi_elf.h"
#include "unwind/cfi_build.h"
#include "unwind/cfi_table.h"

/* The addresses at which seed_cfi.py links. */
enum { TEXT_BYTES = 0x1000, FRAMES = 0x2000, INDEX = 0x8000 };

static int elf_of(const uint8_t *data, size_t size)
{
	const bool is_debug = data[0] & 1;
	const size_t index_bytes = data[0] == 2 && data[1] < size - 2 ? data[1] : 0;
	const uint8_t *frames = data + (data[0] == 2 ? 2 + index_bytes : 1);
	const struct cfi_elf elf = {
		.code_bytes = TEXT_BYTES,
		.is_debug = is_debug,
		.frames_address = is_debug ? 0 : FRAMES,
		.frames = frames,
		.frames_bytes = size - (size_t)(frames - data),
		.index_address = INDEX,
		.index = data + 2,
		.index_bytes = index_bytes,
	};
	int fd = cfi_elf_make(&elf);

	CHECK(fd >= 0);
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
	if (!xp_cfi_build(fd, XP_CFI_WHOLE_FILE, to)) {
		CHECK(!fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK));
		CHECK(!xp_cfi_table_open(&table, to));
		CHECK(xp_cfi_table_header(table)->code_bytes[XP_CFI_KNOWN] <= TEXT_BYTES);
		xp_cfi_table_free(table);
	}
	close(to);
	close(fd);
	return 0;
}
