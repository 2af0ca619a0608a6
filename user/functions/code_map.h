/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The code of an ELF file, decoded: where each instruction starts, and where any jump may lead to. Functions are the
 * entries (FDEs) of .eh_frame; in a Go program, the functions of Go's runtime. Each is decoded completely.
 *
 * Targets are those of all direct jumps and calls; all code addresses that instructions compute (lea, immediate
 * operands), that relocations write, and that data contains, in files with absolute addresses; and all symbols.
 * switch_tables.h adds the targets in tables of 32-bit offsets, which switches use. Landing pads of exceptions are not
 * targets: compilers never let code run into them, so they are never inside a window.
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

/* Marks of a code address. */
enum {
	XP_MARK_TARGET = 1,  /* target of a jump or call */
	XP_MARK_POINTED = 2, /* its address is in data */
	XP_MARK_CALLED = 4,  /* target of a call, or a global symbol of a function */
	XP_MARK_TAKEN = 8,   /* the byte is part of a window */
	XP_MARK_PLT = 16,    /* part of a procedure linkage table */
	XP_MARK_COLD = 32,   /* a symbol that gcc makes for a fragment: NAME.cold */
};

struct xp_code_map {
	struct xp_elf_file *file;
	uint64_t start; /* addresses of the code */
	uint64_t end;
	uint8_t *code;		 /* the bytes from start to end; zero between segments */
	uint8_t *decoded;	 /* at the first byte of an instruction: its length << 4 | its kind; otherwise 0 */
	uint8_t *marks;		 /* for each byte, as above */
	bool *is_decodable;	 /* for each of fdes.all: it was decoded completely */
	struct xp_cfi_fdes fdes; /* sorted by address; none overlap */
	bool is_go;
	struct xp_go_functions go; /* the functions of a Go program */
};

/*
 * Reads and decodes the code of a file, which must outlive the map. Returns 0 or -errno, with a message (why.h):
 * -ENOENT if there are no functions, -E2BIG if there is too much code, -EINVAL, -ENOMEM. The caller frees the map in
 * any case.
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

/* Returns the address of the instruction before vaddr, but not below `first`; vaddr if there is none. */
uint64_t xp_code_map_before(const struct xp_code_map *map, uint64_t vaddr, uint64_t first);
/* Decodes the instruction at vaddr again. */
void xp_code_map_decode(const struct xp_code_map *map, uint64_t vaddr, struct xp_code *code);
/* Returns the index in fdes.all of the entry that contains this address; SIZE_MAX: none. */
size_t xp_code_map_find(const struct xp_code_map *map, uint64_t vaddr);

#endif
