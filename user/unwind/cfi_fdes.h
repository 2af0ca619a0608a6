/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The entries (FDEs) of .eh_frame and .debug_frame: the code ranges they cover, and their programs. The bytes are
 * untrusted: each is read within bounds. Also reads the .eh_frame of JIT code in xprof itself, where libdw may not be
 * used. Does not keep personality routines and their data.
 *
 * Sources: Linux Standard Base Core 5.0, section 10.6 (.eh_frame, .eh_frame_hdr, pointer encodings); DWARF 5, section
 * 6.4.1.
 */
#ifndef XPROF_UNWIND_CFI_FDES_H
#define XPROF_UNWIND_CFI_FDES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi_program.h"

struct xp_cfi_fde {
	uint64_t vaddr;
	uint32_t bytes; /* not 0; vaddr + bytes does not overflow */
	bool is_debug;	/* from .debug_frame */
	uint32_t common;
	uint32_t program_bytes;
	const uint8_t *program; /* in the section */
};

/* Empty if zeroed except for start and end. */
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

/* A section with entries, or the index of such a section. The section's bytes must outlive all entries read from it. */
struct xp_cfi_section {
	const uint8_t *bytes;
	size_t size;
	uint64_t vaddr;
	bool is_debug;
};

/*
 * Adds the section's entries that contain code in [fdes->start, fdes->end), in the order of the section. Skips
 * malformed entries. Returns 0 or -ENOMEM.
 */
int xp_cfi_fdes_read(struct xp_cfi_fdes *fdes, const struct xp_cfi_section *from);
/*
 * Like xp_cfi_fdes_read(), but uses .eh_frame_hdr: the cost depends on the entries that are added, not on all entries.
 * Returns 0; 1 if the index is not one that a linker makes, and nothing was added; or -ENOMEM.
 */
int xp_cfi_fdes_read_indexed(struct xp_cfi_fdes *fdes, const struct xp_cfi_section *from,
			     const struct xp_cfi_section *index);
/*
 * Sorts the entries by address. Removes entries of .debug_frame that overlap an entry of .eh_frame: a program may
 * describe some code in one section, some in the other, and some in both.
 */
void xp_cfi_fdes_sort(struct xp_cfi_fdes *fdes);
/*
 * Starts the program of one of these entries. common->is_signal: the code of the entry returns from a signal handler.
 */
void xp_cfi_fdes_start(const struct xp_cfi_fdes *fdes, const struct xp_cfi_fde *fde, struct xp_cfi_program *program);
void xp_cfi_fdes_free(struct xp_cfi_fdes *fdes);

#endif
