/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes ELF files with code and unwind entries. */
#ifndef XPROF_TESTS_CFI_ELF_H
#define XPROF_TESTS_CFI_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/build.h"

enum { CFI_ELF_CODE = 0x1000 }; /* address and file offset */

/* Empty sections are omitted: only the index, or both. */
struct cfi_elf {
	uint64_t code_bytes; /* zero bytes */
	bool is_debug;	     /* the entries are in .debug_frame */
	uint64_t frames_address;
	const void *frames;
	size_t frames_bytes;
	uint64_t index_address;
	const void *index; /* .eh_frame_hdr */
	size_t index_bytes;
};

/* Returns the first page-aligned address after `bytes` from start. */
static inline uint64_t cfi_elf_behind(uint64_t start, uint64_t bytes)
{
	return (start + bytes + 0xfff) & ~0xfffull;
}

/* Returns a memfd, or -1. */
static inline int cfi_elf_make(const struct cfi_elf *from)
{
	const struct xp_elf_section sections[] = {
		{ .name = ".text",
		  .type = SHT_PROGBITS,
		  .flags = SHF_ALLOC | SHF_EXECINSTR,
		  .addr = CFI_ELF_CODE,
		  .size = from->code_bytes,
		  .align = 4096,
		  .is_loaded = true },
		{ .name = from->is_debug ? ".debug_frame" : ".eh_frame",
		  .type = SHT_PROGBITS,
		  .flags = from->is_debug ? 0 : SHF_ALLOC,
		  .addr = from->frames_address,
		  .size = from->frames_bytes,
		  .align = 4096,
		  .bytes = from->frames },
		{ .name = ".eh_frame_hdr",
		  .type = SHT_PROGBITS,
		  .flags = SHF_ALLOC,
		  .addr = from->index_address,
		  .size = from->index_bytes,
		  .align = 4096,
		  .bytes = from->index },
	};
	int fd = memfd_create("cfi", MFD_CLOEXEC);

	if (fd >= 0 && xp_elf_write(fd, sections, from->index_bytes ? 3 : from->frames_bytes ? 2 : 1)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

#endif
