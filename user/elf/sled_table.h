/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The XRay sled table of an ELF file: bytes in, table out. No process, no BPF, no printing.
 *
 * Source of the format: section xray_instr_map as LLVM writes it (llvm/lib/CodeGen/AsmPrinter/AsmPrinter.cpp,
 * emitXRayTable) and reads it (llvm/lib/XRay/InstrumentationMap.cpp): 32 bytes an entry, u64 address, u64 function,
 * u8 kind, u8 always instrument, u8 version, 13 bytes of zero. From version 2 on both addresses are relative to the
 * place of their field; before, absolute or the addend of an R_X86_64_RELATIVE at that place.
 * Function ids: in section order, from 1, plus one whenever the function's address changes, as the runtime and
 * llvm-xray count them.
 */
#ifndef XPROF_ELF_XRAY_H
#define XPROF_ELF_XRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum xp_sled_kind {
	XP_SLED_ENTRY = 0,
	XP_SLED_EXIT = 1,
	XP_SLED_TAIL_EXIT = 2,
	XP_SLED_ENTRY_ARGS = 3,
	XP_SLED_CUSTOM_EVENT = 4,
	XP_SLED_TYPED_EVENT = 5,
	XP_SLED_KINDS = 6,
};

#define XP_SLED_BYTES_MAX 22	       /* of the longest sled, a typed event's */
#define XP_FUNCTION_ID_MAX 0x0fffffffu /* FDR logs have 28 bits for it */
#define XP_SLEDS_MAX (1u << 22)	       /* of an object: they take some hundred megabytes then, and some seconds */

struct xp_sled {
	uint64_t vaddr;	      /* as linked */
	uint64_t file_offset; /* from the PT_LOAD that holds it: what a uprobe wants */
	uint32_t function_id; /* 1..function_count */
	uint8_t kind;	      /* enum xp_sled_kind */
	uint8_t always;	      /* the map's "always instrument" */
	bool intact;	      /* the file's bytes are those of an unpatched sled of this kind, an event's set-up too */
	bool conditional;     /* tail exit: a conditional jump follows (clang before 19), see condition */
	uint8_t condition;    /* its condition code, low nibble of the opcode */
	uint8_t operands[3];  /* events: the registers, in x86 numbering, that hold ptr, size or type, ptr, size */
};

struct xp_function {
	uint64_t vaddr;
	const char *name; /* as in the symbol table (mangled), owned by the table; NULL when no symbol covers it */
};

struct xp_sled_table {
	struct xp_sled *sleds; /* in section order */
	size_t sled_count;
	struct xp_function *functions; /* functions[id - 1] */
	size_t function_count;
	uint8_t map_version; /* of the newest entry */
	bool pie;	     /* ET_DYN */
	uint8_t build_id[20];
	uint8_t build_id_bytes; /* 0: none */
};

/*
 * Reads the table of an x86-64 executable or shared object held in memory. On success the caller owns *table and frees
 * it with xp_sled_table_free(); on error *table is NULL. Errors, each with a sentence in why (always terminated when
 * why_size is not 0), to be put behind the file's name and ": ":
 * -ENOEXEC not an ELF file for x86-64, or neither executable nor shared object;
 * -ENOENT no sleds (no xray_instr_map, an empty one, or no section headers to find it by);
 * -EINVAL malformed, or more than XP_SLEDS_MAX; one bad entry refuses the whole map. -ENOMEM.
 * -ECANCELED xp_interrupted().
 * A broken symbol table is no error: its functions have no name.
 */
int xp_sled_table_read(struct xp_sled_table **table, const void *elf, size_t size, char *why, size_t why_size);
/*
 * The same of a file, which is read with pread (offset untouched) and may change or shrink meanwhile. Other errors:
 * those of fstat. fd stays the caller's.
 */
int xp_sled_table_open(struct xp_sled_table **table, int fd, char *why, size_t why_size);
void xp_sled_table_free(struct xp_sled_table *table);

/*
 * True when bytes (XP_SLED_BYTES_MAX of them, from file or memory) begin as an unpatched sled of this kind does. The
 * runtime, when it unpatches, restores only the first instruction, so nothing behind it counts.
 */
bool xp_sled_intact(enum xp_sled_kind kind, const uint8_t *bytes);
const char *xp_sled_kind_name(enum xp_sled_kind kind);

#endif
