/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The "symfile" of GDB's JIT interface: an ELF file in memory that describes code which is already in memory. Its
 * sections have the addresses of their loaded contents (sh_addr), and its symbols are relative to them, even if the
 * file is marked relocatable. Pure; the bytes are an untrusted copy of the target's.
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
	/* The address of the loaded .eh_frame, which is correct only there; 0 bytes: none. */
	uint64_t eh_frame;
	uint64_t eh_frame_bytes;
};

/*
 * Broken parts give no functions. The caller frees. Returns 0 or -errno: -EBADMSG if it is no ELF file for x86-64,
 * -ENOMEM.
 */
int xp_jit_symfile_read(struct xp_jit_symfile *symfile, const uint8_t *bytes, size_t size);
void xp_jit_symfile_free(struct xp_jit_symfile *symfile);

#endif
