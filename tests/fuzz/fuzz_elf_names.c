// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the names of code in an ELF file: symbol tables and DWARF, through libdw, which is not instrumented. xprof
 * runs libdw in a child process; this target looks for faults of the caller.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

#include "elf/names.h"

#define CODE_BYTES 0x3000 /* size of the code in the seeds, one of which is a 32-bit ELF file */

static void name_all(struct xp_elf_names *names)
{
	struct xp_name_frame frames[XP_NAME_FRAMES_MAX];

	for (uint64_t vaddr = 0; vaddr < CODE_BYTES; vaddr += 16) {
		size_t count = xp_elf_names_at(names, vaddr, frames);

		CHECK(count <= XP_NAME_FRAMES_MAX);
		for (size_t i = 0; i < count; i++) {
			CHECK(!frames[i].symbol || strlen(frames[i].symbol) < SIZE_MAX);
			CHECK(!frames[i].file || strlen(frames[i].file) < SIZE_MAX);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", 0);
	struct xp_elf_names *names;
	int err;

	unsetenv("DEBUGINFOD_URLS");
	CHECK(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	err = xp_elf_names_open(&names, fd, "/no/such/file", XP_NAMES_LINES);
	CHECK(!err == !!names && (!err || err == -EINVAL || err == -ENOMEM));
	if (!err)
		name_all(names);
	xp_elf_names_free(names);
	close(fd);
	return 0;
}
