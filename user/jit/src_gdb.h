/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JIT code from GDB's JIT interface, which LLVM's compilers serve without being asked: a list in the memory of the
 * process, each entry of which leads to an ELF file that describes code (jit_symfile.h). The process calls the empty
 * function __jit_debug_register_code() whenever the list has changed.
 *
 * Source: GDB's manual, "JIT Compilation Interface".
 */
#ifndef XPROF_JIT_SRC_GDB_H
#define XPROF_JIT_SRC_GDB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jit/bytes.h"
#include "jit/code.h"

/* Of a process's list; the rest is not looked at. */
#define XP_JIT_SRC_GDB_ENTRIES_MAX 16384
#define XP_JIT_SRC_GDB_SYMFILE_BYTES_MAX (16u << 20)

/* Where a file has the interface. */
struct xp_jit_gdb_file {
	uint64_t descriptor; /* __jit_debug_descriptor, from where the file's offset 0 would be mapped */
	uint64_t hook;	     /* __jit_debug_register_code: its offset in the file; 0: none */
};

/* fd stays the caller's. -ENOENT: it has none, or is no ELF file. */
int xp_jit_gdb_file_look(struct xp_jit_gdb_file *file, int fd);

struct xp_jit_src_gdb;

/* descriptor: its address in the process. -ENOMEM. */
int xp_jit_src_gdb_open(struct xp_jit_src_gdb **gdb, pid_t pid, uint64_t descriptor);
/* What to read the process's memory with; it outlives the source. */
void xp_jit_src_gdb_read_with(struct xp_jit_src_gdb *gdb, struct xp_target_memory *memory);
void xp_jit_src_gdb_free(struct xp_jit_src_gdb *gdb);

/*
 * Walks the list: loads what is new, unloads what is gone. is_told: at now_tsc the process said that it changed.
 * bytes: to read the code's bytes with, or NULL. What cannot be read, or contradicts itself, is left for the next time.
 * 1: there is more to be taken; 0; -ENOMEM.
 */
int xp_jit_src_gdb_refresh(struct xp_jit_src_gdb *gdb, struct xp_jit_code *code, struct xp_jit_bytes *bytes,
			   uint64_t now_tsc, bool is_told);

#endif
