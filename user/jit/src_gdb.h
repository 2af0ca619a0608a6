/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JIT code from GDB's JIT interface, which LLVM's compilers provide by default. The interface is a list in the memory
 * of the process; each entry leads to an ELF file that describes code (jit/symfile.h). The process calls the empty
 * function __jit_debug_register_code() after each change of the list.
 *
 * Source: GDB's manual, "JIT Compilation Interface".
 */
#ifndef XPROF_JIT_SRC_GDB_H
#define XPROF_JIT_SRC_GDB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jit/code_bytes.h"
#include "jit/code.h"

/* Maximum number of entries that are read from a list. */
#define XP_JIT_SRC_GDB_ENTRIES_MAX 16384
#define XP_JIT_SRC_GDB_SYMFILE_BYTES_MAX (16u << 20)

/* The location of the interface in a file. */
struct xp_jit_gdb_file {
	uint64_t
	    descriptor; /* __jit_debug_descriptor, relative to the address where the file's offset 0 would be mapped */
	uint64_t hook;	/* __jit_debug_register_code: its offset in the file; 0: none */
};

/*
 * Searches a file for the interface. Does not close fd. Returns 0 or -errno: -ENOENT if fd is not an ELF file or does
 * not have the interface.
 */
int xp_jit_gdb_file_look(struct xp_jit_gdb_file *file, int fd);

struct xp_jit_src_gdb;

/* Creates a source. descriptor: address of __jit_debug_descriptor in the process. Returns 0 or -ENOMEM. */
int xp_jit_src_gdb_open(struct xp_jit_src_gdb **gdb, pid_t pid, uint64_t descriptor);
/* Sets how to read the memory of the process; memory must outlive the source. */
void xp_jit_src_gdb_read_with(struct xp_jit_src_gdb *gdb, struct xp_target_memory *memory);
void xp_jit_src_gdb_free(struct xp_jit_src_gdb *gdb);

/*
 * Walks the list: loads new code, unloads code that is gone. is_told: the process reported a change at now_tsc. bytes:
 * reads the code bytes; NULL: do not read them. The next walk retries unreadable or inconsistent entries. Returns 1 if
 * there is more, 0, or -ENOMEM.
 */
int xp_jit_src_gdb_refresh(struct xp_jit_src_gdb *gdb, struct xp_jit_code *code, struct xp_jit_bytes *bytes,
			   uint64_t now_tsc, bool is_told);

#endif
