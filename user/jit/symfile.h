/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the "symfile" of GDB's JIT interface: an ELF file in memory that describes loaded code. sh_addr of a section is
 * the address of its loaded contents. Symbols are relative to the sections, even if the file is marked relocatable. The
 * bytes are an untrusted copy of target memory. This module makes no system calls.
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
	const char *name; /* points into the bytes */
};

struct xp_jit_symfile {
	struct xp_jit_function *functions; /* in address order */
	size_t count;
	/*
	 * The address and size of the loaded .eh_frame, whose contents are correct only at this address; 0 bytes: none.
	 */
	uint64_t eh_frame;
	uint64_t eh_frame_bytes;
};

/*
 * Reads a symfile. Skips broken parts. The caller frees *symfile. Returns 0 or -errno: -EBADMSG if the bytes are not an
 * ELF file for x86-64, -ENOMEM.
 */
int xp_jit_symfile_read(struct xp_jit_symfile *symfile, const uint8_t *bytes, size_t size);
void xp_jit_symfile_free(struct xp_jit_symfile *symfile);

#endif
