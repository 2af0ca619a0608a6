/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Synthetic CFI: rows for code without an entry in the unwind tables, if the bytes of the code are unambiguous
 * (arch/x86_64/code_shapes.h):
 * - returns from signal handlers in musl and Go;
 * - stubs through which a program calls libraries, if the linker made no entry (lld);
 * - .init and .fini;
 * - the code after the system call in glibc's clone3(): its entry describes the parent, but the child has a new, empty
 *   stack.
 *
 * Also replaces entries of Go's runtime that are wrong: they describe neither the end of a goroutine's stack nor a
 * switch to another stack.
 */
#ifndef XPROF_UNWIND_CFI_SYNTHETIC_H
#define XPROF_UNWIND_CFI_SYNTHETIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elf_file.h"
#include "unwind/cfi_rows.h"

#define XP_CFI_STUBS_MAX 6
#define XP_CFI_CHUNK_BYTES 8192

enum xp_cfi_stubs_kind {
	XP_CFI_STUBS_PLAIN,
	XP_CFI_STUBS_LAZY, /* .plt */
	XP_CFI_STUBS_INIT, /* not stubs, but .init or .fini */
};

/* A section of stubs. Offsets are offsets in the file. */
struct xp_cfi_stubs {
	uint64_t start;
	uint64_t end;
	enum xp_cfi_stubs_kind kind;
	bool has_first; /* the first stub is within the piece */
};

struct xp_cfi_synthetic {
	struct xp_elf_file *image; /* owned by the caller, as are the rows */
	struct xp_cfi_rows *rows;
	struct xp_cfi_stubs stubs[XP_CFI_STUBS_MAX];
	size_t stubs_count;
	bool is_go;
	uint8_t chunk[XP_CFI_CHUNK_BYTES];
};

/* Limits the search to [start, end) of the file. */
void xp_cfi_synthetic_init(struct xp_cfi_synthetic *synthetic, struct xp_elf_file *image, uint64_t start, uint64_t end,
			   struct xp_cfi_rows *rows);
/* Adds rows for [start, end) of the file, at most 4 GiB. Returns 0 or an error of xp_cfi_rows_add(). */
int xp_cfi_synthetic_add(struct xp_cfi_synthetic *synthetic, uint64_t start, uint64_t end);
/*
 * The part of the function [start, end) of the file for which its entry is wrong, and the row that replaces it. Returns
 * false if the entry is right.
 */
struct xp_cfi_exception {
	uint64_t start;
	uint64_t end;
	struct xp_cfi_row row;
};
bool xp_cfi_synthetic_except(struct xp_cfi_synthetic *synthetic, uint64_t start, uint64_t end,
			     struct xp_cfi_exception *exception);
/*
 * Returns whether [start, end) contains a signal return. Ignore an entry for such code that is not marked as a signal
 * frame.
 */
bool xp_cfi_synthetic_has_signal_return(struct xp_cfi_synthetic *synthetic, uint64_t start, uint64_t end);

#endif
