/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows for code without an entry in the unwind tables, where its bytes leave no doubt:
 *  - returns from signal handlers, of musl and of Go: mov $__NR_rt_sigreturn,%rax; syscall. Nobody else can use these
 *    two instructions, since the kernel takes what is at rsp for a ucontext_t;
 *  - stubs through which a program calls into libraries, where the linker made no entry (lld): System V ABI for
 *    x86-64, section 5.2, and with endbr64 lld's. In all of them nothing is on the stack but the return address, and
 *    what a lazy stub pushes for the dynamic linker;
 *  - .init and .fini (System V ABI, "Special Sections"), each one function, of pieces that the linker joins: the first
 *    reserves one word of the stack for all, the last one lets it go;
 *  - what is behind the system call in clone3() of glibc, whose entry ends there: what it says holds for the parent,
 * the child has a stack of its own with nothing on it.
 */
#ifndef XPROF_CFI_GAPS_H
#define XPROF_CFI_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi_rows.h"
#include "elf/file.h"

#define XP_CFI_STUBS_MAX 6
#define XP_CFI_CHUNK_BYTES 8192

enum xp_cfi_stubs_kind {
	XP_CFI_STUBS_PLAIN,
	XP_CFI_STUBS_LAZY, /* .plt */
	XP_CFI_STUBS_INIT, /* no stubs, but .init or .fini */
};

/* A section of stubs; offsets in the file. */
struct xp_cfi_stubs {
	uint64_t start;
	uint64_t end;
	enum xp_cfi_stubs_kind kind;
	bool has_first; /* it was not cut off */
};

struct xp_cfi_gaps {
	struct xp_elf_image *image; /* the caller's, as are the rows */
	struct xp_cfi_rows *rows;
	uint64_t known_bytes; /* of code that got a rule here */
	struct xp_cfi_stubs stubs[XP_CFI_STUBS_MAX];
	size_t stubs_count;
	uint8_t chunk[XP_CFI_CHUNK_BYTES];
};

/* Of [start, end) of the file alone. */
void xp_cfi_gaps_init(struct xp_cfi_gaps *gaps, struct xp_elf_image *image, uint64_t start, uint64_t end,
		      struct xp_cfi_rows *rows);
/* Adds rows for [start, end) of the file, at most 4 GiB. Those of xp_cfi_rows_add(). */
int xp_cfi_gaps_add(struct xp_cfi_gaps *gaps, uint64_t start, uint64_t end);
/* Is there one in [start, end)? Entries that do not know of it are better left alone. */
bool xp_cfi_gaps_has_signal_return(struct xp_cfi_gaps *gaps, uint64_t start, uint64_t end);

#endif
