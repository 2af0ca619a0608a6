// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the readers of ELF files other than the reader of sled tables: the search for single symbols, the dynamic
 * linker's breakpoint, GDB's JIT interface, copies without code, and unwind tables. If the last byte is 0xff, the file
 * is extended so far that it is not copied unchanged.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#include "base/util.h"
#include "base/why.h"
#include "elf/copy.h"
#include "elf/find.h"
#include "jit/src_gdb.h"
#include "target/link_map.h"
#include "unwind/cfi_build.h"
#include "unwind/cfi_table.h"

static void check_image(int fd, size_t size)
{
	static const char *const names[] = { "_IO_list_all", "main", "a" };
	uint64_t values[XP_ARRAY_SIZE(names)];
	struct xp_elf_file image;
	uint8_t build_id[20];
	int err = xp_elf_file_fd(&image, fd);

	CHECK(xp_why_has(err) == !!err);
	if (!err) {
		CHECK(xp_elf_file_build_id(&image, build_id, sizeof(build_id)) <= sizeof(build_id));
		CHECK(xp_elf_find(&image, names, values, XP_ARRAY_SIZE(names)) <= XP_ARRAY_SIZE(names));
		for (size_t i = 0; i < image.segment_count; i++)
			CHECK(image.segments[i].offset <= size &&
			      image.segments[i].bytes <= size - image.segments[i].offset);
	}
	xp_elf_file_close(&image);
}

static void check_places(int fd)
{
	struct xp_jit_gdb_file file;
	uint64_t offset;
	int err = xp_jit_gdb_file_look(&file, fd);

	CHECK(!err == !!file.descriptor);
	xp_link_map_offset(fd, &offset);
}

static void check_copy(int fd)
{
	FILE *out = fopen("/dev/null", "w");

	CHECK(out);
	xp_elf_copy_plan(fd, out, NULL);
	fclose(out);
}

static void check_table(int fd)
{
	int to = memfd_create("table", MFD_ALLOW_SEALING);
	struct xp_cfi_table *table;

	CHECK(to >= 0);
	if (!xp_cfi_build(fd, XP_CFI_WHOLE_FILE, to)) {
		CHECK(!fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK));
		CHECK(!xp_cfi_table_open(&table, to));
		xp_cfi_table_free(table);
	}
	close(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", 0);

	CHECK(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	check_image(fd, size);
	check_places(fd);
	check_table(fd);
	check_copy(fd);
	close(fd);
	return 0;
}
