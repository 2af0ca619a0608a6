/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The "symfile" of GDB's JIT interface: an ELF file in memory that describes code which is in memory already. Its
 * sections have the addresses at which their contents were put (sh_addr), and its symbols count from there, also where
 * the file calls itself relocatable. Pure; the bytes are a copy of what the target has, who may have written anything.
 *
 * Source of the format: GDB's manual, "JIT Compilation Interface"; the ELF64 specification.
 */
#ifndef XPROF_JIT_SYMFILE_H
#define XPROF_JIT_SYMFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_JIT_SYMFILE_FUNCTIONS_MAX 65536

struct xp_jit_function {
	uint64_t address; /* in the process */
	uint64_t size;
	const char *name; /* in the bytes */
};

struct xp_jit_symfile {
	struct xp_jit_function *functions; /* in order of address */
	size_t count;
	bool has_lines; /* there is a .debug_line */
	/* Where .eh_frame was put, which is as it should be there alone; 0 bytes: nowhere. */
	uint64_t eh_frame;
	uint64_t eh_frame_bytes;
};

/* -EBADMSG no ELF file for x86-64; -ENOMEM. What is broken in it has no functions. The caller frees. */
int xp_jit_symfile_read(struct xp_jit_symfile *symfile, const uint8_t *bytes, size_t size);
void xp_jit_symfile_free(struct xp_jit_symfile *symfile);

#endif
