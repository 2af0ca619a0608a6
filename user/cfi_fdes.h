/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stretches of code that the entries (FDEs) of .eh_frame and .debug_frame are for. libdw finds the entry for an
 * address, but does not tell which addresses have one.
 *
 * Sources: Linux Standard Base Core 5.0, section 10.6 (.eh_frame, pointer encodings); DWARF 5, section 6.4.1.
 */
#ifndef XPROF_CFI_FDES_H
#define XPROF_CFI_FDES_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xp_cfi_fde {
	uint64_t vaddr;
	uint32_t bytes; /* not 0; vaddr + bytes does not wrap around */
	bool is_debug;	/* of .debug_frame */
};

/* Zeroed: empty. */
struct xp_cfi_fdes {
	struct xp_cfi_fde *all;
	size_t count;
	size_t room;
};

/* Adds those of a section, in its order; what is malformed is skipped. vaddr: of the section. -ENOMEM. */
int xp_cfi_fdes_read(struct xp_cfi_fdes *fdes, Elf *elf, Elf_Data *section, uint64_t vaddr, bool is_debug);
/*
 * Brings them into the order of addresses. Of those of .debug_frame only such remain as overlap none of .eh_frame: a
 * program may have some of its code in the one, some in the other, some in both.
 */
void xp_cfi_fdes_sort(struct xp_cfi_fdes *fdes);
void xp_cfi_fdes_free(struct xp_cfi_fdes *fdes);

#endif
