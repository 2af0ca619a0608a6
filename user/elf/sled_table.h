/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the XRay sled table of an ELF file. Accesses no process, loads no BPF program, and prints nothing.
 *
 * Source of the format: section xray_instr_map as LLVM writes it (llvm/lib/CodeGen/AsmPrinter/AsmPrinter.cpp,
 * emitXRayTable) and reads it (llvm/lib/XRay/InstrumentationMap.cpp). An entry has 32 bytes: u64 address, u64 function,
 * u8 kind, u8 always instrument, u8 version, 13 bytes of zero. In version 2 and later, each address is relative to the
 * location of its own field. In earlier versions, an address is absolute, or the addend of an R_X86_64_RELATIVE
 * relocation.
 *
 * Function IDs count from 1 in section order. The ID increases whenever the function's address changes, as in the
 * runtime and llvm-xray.
 */
#ifndef XPROF_ELF_SLED_TABLE_H
#define XPROF_ELF_SLED_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/x86_64/sled_bytes.h"

#define XP_FUNCTION_ID_MAX 0x0fffffffu /* FDR logs store function IDs in 28 bits */
#define XP_SLEDS_MAX (1u << 22)	       /* per binary; this many sleds take seconds and hundreds of MB */

struct xp_function {
	uint64_t vaddr;
	const char *name; /* as in the symbol table (mangled), owned by the table; NULL if no symbol covers it */
};

struct xp_sled_table {
	struct xp_sled *sleds; /* in section order */
	size_t sled_count;
	struct xp_function *functions; /* functions[id - 1] */
	size_t function_count;
	uint8_t map_version; /* version of the newest entry */
	bool pie;	     /* ET_DYN */
	uint8_t build_id[20];
	uint8_t build_id_bytes; /* 0: none */
};

/*
 * Reads the table of an x86-64 executable or shared object in memory. On success the caller owns *table and frees it
 * with xp_sled_table_free(). On error, *table is NULL, and xp_why() returns a message to print after the file name and
 * ": ". Returns 0 or -errno: - -ENOEXEC if it is not an ELF file for x86-64, or neither an executable nor a shared
 * object; - -ENOENT if it has no sleds (no xray_instr_map, an empty one, or no section headers to find it with); -
 * -EINVAL if it is malformed or has more than XP_SLEDS_MAX sleds; one bad entry rejects the whole map; - -ENOMEM;
 * -ECANCELED on xp_interrupted().
 *
 * A broken symbol table is not an error: the functions have no names then.
 */
int xp_sled_table_read(struct xp_sled_table **table, const void *elf, size_t size);
/*
 * Like xp_sled_table_read(), for a file. It is read with pread(2), so its offset stays unchanged, and it may change or
 * shrink meanwhile. Also returns errors of fstat(2). The caller keeps fd.
 */
int xp_sled_table_open(struct xp_sled_table **table, int fd);
/*
 * Returns an empty table with space for this many, or NULL if out of memory. The caller keeps the names of functions
 * that it adds.
 */
struct xp_sled_table *xp_sled_table_new(size_t sleds, size_t functions);
/* Removes the names of all functions. */
void xp_sled_table_forget_names(struct xp_sled_table *table);
void xp_sled_table_free(struct xp_sled_table *table);

#endif
