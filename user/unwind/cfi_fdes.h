/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The entries (FDEs) of .eh_frame and .debug_frame: the stretches of code that they are for, and their programs. libdw
 * finds the entry for an address, but does not tell which addresses have one.
 *
 * Sources: Linux Standard Base Core 5.0, section 10.6 (.eh_frame, .eh_frame_hdr, pointer encodings); DWARF 5, section
 * 6.4.1.
 */
#ifndef XPROF_CFI_FDES_H
#define XPROF_CFI_FDES_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi_program.h"

struct xp_cfi_fde {
	uint64_t vaddr;
	uint32_t bytes; /* not 0; vaddr + bytes does not wrap around */
	bool is_debug;	/* of .debug_frame */
	uint32_t common;
	uint32_t program_bytes;
	const uint8_t *program; /* in the section */
};

/* Zeroed but for start and end: empty. */
struct xp_cfi_fdes {
	uint64_t start;
	uint64_t end;
	struct xp_cfi_fde *all;
	size_t count;
	size_t room;
	struct xp_cfi_common *commons;
	size_t common_count;
	size_t common_room;
};

/* A section with entries, or with the index of one. The bytes must outlive what is read of them. */
struct xp_cfi_section {
	Elf *elf;
	Elf_Data *data;
	uint64_t vaddr;
	bool is_debug;
};

/*
 * Adds those of a section with code in [start, end), the addresses of fdes, in the section's order; what is malformed
 * is skipped. -ENOMEM.
 */
int xp_cfi_fdes_read(struct xp_cfi_fdes *fdes, const struct xp_cfi_section *from);
/*
 * The same by .eh_frame_hdr, at the cost of these and not of all. 1: the index is none that linkers make, nothing was
 * added; -ENOMEM.
 */
int xp_cfi_fdes_read_indexed(struct xp_cfi_fdes *fdes, const struct xp_cfi_section *from,
			     const struct xp_cfi_section *index);
/*
 * Brings them into the order of addresses. Of those of .debug_frame only such remain as overlap none of .eh_frame: a
 * program may have some of its code in the one, some in the other, some in both.
 */
void xp_cfi_fdes_sort(struct xp_cfi_fdes *fdes);
/* Starts that of one of these; whether its code is what handlers of signals return to: common->is_signal. */
void xp_cfi_fdes_start(const struct xp_cfi_fdes *fdes, const struct xp_cfi_fde *fde, struct xp_cfi_program *program);
void xp_cfi_fdes_free(struct xp_cfi_fdes *fdes);

#endif
