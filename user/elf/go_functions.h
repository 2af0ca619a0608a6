/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of a Go program, from the table of Go's runtime (.gopclntab): their addresses and names. The runtime
 * needs the table, so it is also in stripped programs. The bytes are untrusted.
 *
 * Source of the format: Go's src/runtime/symtab.go (pcHeader, functab), src/runtime/runtime2.go (_func) and
 * src/internal/abi/symtab.go (FuncFlagAsm), from Go 1.18 on. xprof reads no tables of earlier versions.
 */
#ifndef XPROF_ELF_GO_FUNCTIONS_H
#define XPROF_ELF_GO_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elf_file.h"

#define XP_GO_TABLE_BYTES_MAX (1u << 28) /* kubelet has 30 MB */

struct xp_go_function {
	uint64_t vaddr;
	uint64_t bytes;	  /* up to the next function */
	const char *name; /* "": none */
	bool is_assembly;
};

struct xp_go_functions {
	struct xp_go_function *all; /* by address */
	size_t count;
	uint8_t *table; /* the names; owned if the functions were read from a file */
};

/*
 * Reads the table of a Go program. Returns 0 or -errno, with a sentence (why.h): -ENOENT if the file has no table that
 * xprof can read, -EINVAL if the table is malformed, -ENOMEM. The caller frees on success and on error.
 */
int xp_go_functions_read(struct xp_go_functions *functions, struct xp_elf_file *file);
/*
 * Reads the functions of a table in memory, which outlives them. text: the address of the code. Returns as above.
 */
int xp_go_functions_parse(struct xp_go_functions *functions, const uint8_t *table, size_t bytes, uint64_t text);
/* Returns the function at this address, or NULL. */
const struct xp_go_function *xp_go_functions_find(const struct xp_go_functions *functions, uint64_t vaddr);
void xp_go_functions_free(struct xp_go_functions *functions);

#endif
