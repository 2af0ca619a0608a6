/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The code of an ELF file, decoded: where each instruction starts, and where anything may jump to.
 *
 * Functions are the entries (FDEs) of .eh_frame; in a Go program, the functions of Go's runtime. Each is decoded from
 * its first byte to its last one. Targets are those of all direct jumps and calls, all addresses of code that
 * instructions compute (lea, immediate operands), that relocations write, and, in files with absolute addresses, that
 * stand in data; and all symbols. Tables of 32-bit offsets, which switches use, are added by switch_tables.h. Landing
 * pads of exceptions are not: compilers never let code run into them, so they are never inside a window.
 *
 * The file is untrusted: all this runs in a confined process (ask.h).
 */
#ifndef XPROF_FUNCTIONS_CODE_MAP_H
#define XPROF_FUNCTIONS_CODE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/x86_64/code_decode.h"
#include "elf/elf_file.h"
#include "elf/go_functions.h"
#include "unwind/cfi_fdes.h"

#define XP_CODE_MAP_BYTES_MAX (1u << 30) /* from the first byte of code to the last one */

/* A code address has these marks. */
enum {
	XP_MARK_TARGET = 1,  /* something may jump or call here */
	XP_MARK_POINTED = 2, /* its address is in data */
	XP_MARK_CALLED = 4,  /* a call's target, or a function's global symbol */
	XP_MARK_TAKEN = 8,   /* the byte is part of a window */
	XP_MARK_PLT = 16,    /* part of a procedure linkage table */
	XP_MARK_COLD = 32,   /* a symbol of gcc's for a fragment: NAME.cold */
};

struct xp_code_map {
	struct xp_elf_file *file;
	uint64_t start; /* addresses of the code */
	uint64_t end;
	uint8_t *code;		 /* the bytes from start to end; zero between segments */
	uint8_t *decoded;	 /* at the first byte of an instruction: its length << 4 | its kind; else 0 */
	uint8_t *marks;		 /* for each byte, as above */
	bool *is_decodable;	 /* for each of fdes.all: it decodes to its end */
	struct xp_cfi_fdes fdes; /* sorted by address; none overlap */
	bool is_go;
	struct xp_go_functions go; /* of a Go program */
};

/*
 * Reads and decodes the code of a file, which must outlive the map. Returns 0 or -errno, with a sentence (why.h):
 * -ENOENT if there are no functions, -E2BIG if there is too much code, -EINVAL, -ENOMEM. The caller frees the map on
 * success and on error.
 */
int xp_code_map_read(struct xp_code_map *map, struct xp_elf_file *file);
void xp_code_map_free(struct xp_code_map *map);

static inline bool xp_code_map_has(const struct xp_code_map *map, uint64_t vaddr)
{
	return vaddr >= map->start && vaddr < map->end;
}

static inline enum xp_code_kind xp_code_map_kind(const struct xp_code_map *map, uint64_t vaddr)
{
	return xp_code_map_has(map, vaddr) ? map->decoded[vaddr - map->start] & 15 : XP_CODE_NONE;
}

static inline uint64_t xp_code_map_next(const struct xp_code_map *map, uint64_t vaddr)
{
	return vaddr + (map->decoded[vaddr - map->start] >> 4);
}

static inline bool xp_code_map_is(const struct xp_code_map *map, uint64_t vaddr, uint8_t mark)
{
	return xp_code_map_has(map, vaddr) && map->marks[vaddr - map->start] & mark;
}

static inline void xp_code_map_mark(struct xp_code_map *map, uint64_t vaddr, uint8_t mark)
{
	if (xp_code_map_has(map, vaddr))
		map->marks[vaddr - map->start] |= mark;
}

/* The instruction that ends where the one at vaddr starts, not below `first`. Returns vaddr if there is none. */
uint64_t xp_code_map_before(const struct xp_code_map *map, uint64_t vaddr, uint64_t first);
/* Decodes the instruction at vaddr, which was decoded before. */
void xp_code_map_decode(const struct xp_code_map *map, uint64_t vaddr, struct xp_code *code);
/* Returns the index in fdes.all of the entry that contains this address; SIZE_MAX: none. */
size_t xp_code_map_find(const struct xp_code_map *map, uint64_t vaddr);

#endif
