/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An ELF file with an .eh_frame of as many rows as are wanted, put together from the Linux Standard Base, section 10.6:
 * each byte of its code has another rule than its neighbours.
 */
#ifndef XPROF_TESTS_BIG_CFI_H
#define XPROF_TESTS_BIG_CFI_H

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf_build.h"

enum { BIG_CFI_ADDRESS = 0x1000 };

static inline size_t big_cfi_fde(uint8_t *to, uint64_t at, uint64_t vaddr, uint64_t section, uint32_t rows)
{
	uint8_t *p = to + 4;
	const uint32_t cie = (uint32_t)(at + 4), start = (uint32_t)(vaddr - (section + at + 8));
	uint32_t length;

	memcpy(p, &cie, 4);
	memcpy(p + 4, &start, 4); /* pcrel */
	memcpy(p + 8, &rows, 4);
	p[12] = 0; /* augmentation data */
	p += 13;
	for (uint32_t i = 0; i < rows; i++) {
		*p++ = 0x0e; /* DW_CFA_def_cfa_offset */
		*p++ = i & 1 ? 16 : 8;
		*p++ = 0x41; /* DW_CFA_advance_loc 1 */
	}
	while ((p - to) % 4)
		*p++ = 0;
	length = (uint32_t)(p - to) - 4;
	memcpy(to, &length, 4);
	return (size_t)(p - to);
}

/* A memfd with `entries` FDEs of `rows` rows each, or -1. */
static inline int big_cfi_elf(uint32_t entries, uint32_t rows)
{
	static const uint8_t cie[] = { 20, 0,	 0,  0, 0,    0,    0, 0, 1,	'z', 'R', 0,
				       1,  0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1,   0,	  0 };
	uint64_t code_bytes = (uint64_t)entries * rows, section = BIG_CFI_ADDRESS + ((code_bytes + 0xfff) & ~0xfffull);
	uint8_t *eh_frame = calloc(1, sizeof(cie) + entries * (rows * 3ul + 24));
	int fd = memfd_create("big", MFD_CLOEXEC);
	size_t at = sizeof(cie);

	if (!eh_frame || fd < 0)
		return -1;
	memcpy(eh_frame, cie, sizeof(cie));
	for (uint32_t i = 0; i < entries; i++)
		at += big_cfi_fde(eh_frame + at, at, BIG_CFI_ADDRESS + (uint64_t)i * rows, section, rows);
	{
		const struct xp_elf_section sections[] = {
			{ .name = ".text",
			  .type = SHT_PROGBITS,
			  .flags = SHF_ALLOC | SHF_EXECINSTR,
			  .addr = BIG_CFI_ADDRESS,
			  .size = code_bytes,
			  .align = 4096,
			  .is_loaded = true },
			{ .name = ".eh_frame",
			  .type = SHT_PROGBITS,
			  .flags = SHF_ALLOC,
			  .addr = section,
			  .size = at,
			  .align = 4096,
			  .bytes = eh_frame },
		};

		if (xp_elf_write(fd, sections, 2)) {
			close(fd);
			fd = -1;
		}
	}
	free(eh_frame);
	return fd;
}

#endif
