/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of many ELF files to functions and lines, demangled, for humans. The files may be hostile: each is read in
 * a confined process (confined.h), by elf_names.h. Where that dies, a second one tries the symbol tables alone; where
 * that dies too, addresses stay without names. All of them together have XP_NAMES_SECONDS: names that came in time are
 * there, and a warning tells of the others.
 *
 * First all addresses are asked for, then they are named at once, then the names are read.
 */
#ifndef XPROF_SYMBOLIZE_H
#define XPROF_SYMBOLIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/elf_names.h"
#include "report/elf_questions.h"

/* More addresses than this are not named, nor are those whose names come when this much text is in memory. */
#define XP_PLACES_MAX (16u << 20)
#define XP_NAMES_BYTES_MAX (256u << 20)
#define XP_NAMES_SECONDS 120

struct xp_symbolizer;

struct xp_frame {
	const char *function; /* clean (xp_clean_text); NULL: not known */
	const char *file;     /* the same */
	uint32_t line;	      /* 0: not known */
};

/* An address asked for. */
struct xp_place {
	uint64_t vaddr;
	struct xp_frame *frames; /* the innermost first, the one that is not inlined last */
	uint32_t frame_count;	 /* 0: nothing is known */
};

/* -ENOMEM. */
int xp_symbolizer_new(struct xp_symbolizer **symbolizer, enum xp_name_detail detail);
void xp_symbolizer_free(struct xp_symbolizer *symbolizer);

/* Instead of XP_NAMES_SECONDS, from now on. */
void xp_symbolizer_limit(struct xp_symbolizer *symbolizer, uint64_t ns);

/*
 * A number for the file of this path, the same for the same path. build_id_bytes not 0: the file must have this build
 * id, or it has changed since and gives no names, of which a warning tells. A file that cannot be read gives none
 * either, nor does what has no absolute path ("[vdso]"). -ENOMEM.
 */
int xp_symbolizer_file(struct xp_symbolizer *symbolizer, const char *path, const uint8_t *build_id,
		       size_t build_id_bytes, uint32_t *file);

const char *xp_symbolizer_path(const struct xp_symbolizer *symbolizer, uint32_t file);
/* Is it an ELF file, and the one that was recorded? */
bool xp_symbolizer_is_readable(const struct xp_symbolizer *symbolizer, uint32_t file);
/* Behind links; the path itself of what cannot be read. */
const char *xp_symbolizer_real_path(const struct xp_symbolizer *symbolizer, uint32_t file);

/* The functions of the file that have sleds. As xp_elf_ask_functions(). */
int xp_symbolizer_functions(struct xp_symbolizer *symbolizer, uint32_t file, size_t max,
			    struct xp_elf_functions *functions);

/*
 * The address as linked of what is mapped `distance` bytes behind the place where the file's bytes from `offset` on
 * are. distance + offset when the file has no such code.
 */
uint64_t xp_symbolizer_vaddr(const struct xp_symbolizer *symbolizer, uint32_t file, uint64_t offset, uint64_t distance);

/* Asks for an address as linked. *place: its number, for xp_symbolizer_place(). -ENOMEM, -E2BIG. */
int xp_symbolizer_want(struct xp_symbolizer *symbolizer, uint32_t file, uint64_t vaddr, uint32_t *place);

/* Names all that was asked for since the last run. -ENOMEM; those of fork(2) and pipe(2). */
int xp_symbolizer_run(struct xp_symbolizer *symbolizer);

/* Texts live as long as the symbolizer, the place itself until the next xp_symbolizer_want(). */
const struct xp_place *xp_symbolizer_place(const struct xp_symbolizer *symbolizer, uint32_t place);

/* The one copy of this text, cleaned, which lives as long as the symbolizer. NULL: out of memory. */
const char *xp_symbolizer_text(struct xp_symbolizer *symbolizer, const char *text);

#endif
