/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Converts addresses in many ELF files to demangled functions and lines, for humans. The files may be hostile:
 * elf/names.h reads each in a confined process (confined.h). If that process dies, a second one tries the symbol tables
 * alone; if that dies, too, the addresses stay without names. All processes together have XP_NAMES_SECONDS: names found
 * in that time are used, and a warning reports the rest. First all addresses are requested, then named, then read.
 */
#ifndef XPROF_MODEL_SYMBOLIZE_H
#define XPROF_MODEL_SYMBOLIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/questions.h"
#include "model/binaries.h"

/* Limits: further addresses are not named; nor is an address if its name comes when this much text is in memory. */
#define XP_PLACES_MAX (16u << 20)
#define XP_NAMES_BYTES_MAX (256u << 20)
#define XP_NAMES_SECONDS 120

struct xp_symbolizer;

/* A requested address. */
struct xp_place {
	uint64_t vaddr;
	struct xp_source_frame *frames; /* the innermost first; the last one is not inlined */
	uint32_t frame_count;		/* 0: nothing is known */
};

/* Returns 0 or -ENOMEM. */
int xp_symbolizer_new(struct xp_symbolizer **symbolizer, enum xp_name_detail detail);
void xp_symbolizer_free(struct xp_symbolizer *symbolizer);

/* Replaces XP_NAMES_SECONDS from now on. */
void xp_symbolizer_limit(struct xp_symbolizer *symbolizer, uint64_t ns);

/* Which file is wanted. */
enum xp_symbolizer_want_of {
	XP_FILE_ANY,	  /* the one at the path: nothing more is known of it */
	XP_FILE_RECORDED, /* that of a recording, if its build ID proves it: without one, it may have changed since */
};

/*
 * Returns a number for the file with this path in *file, the same for the same path. build_id_bytes not 0: the file
 * must have this build ID. A file that is not the recorded one gets no names, and a warning is printed. A file that
 * cannot be read gets no names either, nor does anything without an absolute path ("[vdso]"). Returns 0 or -ENOMEM.
 */
struct xp_symbolizer_file {
	const char *path;
	const uint8_t *build_id;
	size_t build_id_bytes;
	enum xp_symbolizer_want_of want;
};
int xp_symbolizer_file(struct xp_symbolizer *symbolizer, const struct xp_symbolizer_file *wanted, uint32_t *file);
/* Like xp_symbolizer_file(), for a binary of a recording: its names in sym/, as those of the file at its path. */
int xp_symbolizer_binary(struct xp_symbolizer *symbolizer, const struct xp_recorded_binary *binary, uint32_t *file);

/* Returns whether it is an ELF file, and the one that was recorded. */
bool xp_symbolizer_is_readable(const struct xp_symbolizer *symbolizer, uint32_t file);
/* The path without links; the path itself if the file cannot be read; of a recorded binary, the path of then. */
const char *xp_symbolizer_real_path(const struct xp_symbolizer *symbolizer, uint32_t file);

/* Copies the build id of the file, at most 64 bytes. Returns its length; 0: none, or the file cannot be read. */
size_t xp_symbolizer_build_id(const struct xp_symbolizer *symbolizer, uint32_t file, uint8_t *to);

/* Lists the functions of the file that have sleds. Like xp_elf_ask_functions(). */
int xp_symbolizer_functions(struct xp_symbolizer *symbolizer, uint32_t file, size_t max,
			    struct xp_elf_functions *functions);

/*
 * The address as linked of code mapped `distance` bytes after the mapping of the file's bytes at `offset`. Returns
 * distance + offset if the file has no such code.
 */
uint64_t xp_symbolizer_vaddr(const struct xp_symbolizer *symbolizer, uint32_t file, uint64_t offset, uint64_t distance);

/*
 * Requests the name of an address as linked. *place: a number for xp_symbolizer_place(). Returns 0, -ENOMEM or -E2BIG.
 */
int xp_symbolizer_want(struct xp_symbolizer *symbolizer, uint32_t file, uint64_t vaddr, uint32_t *place);

/* Names all addresses requested since the last run. Returns 0, -ENOMEM, or an error of fork(2) or pipe(2). */
int xp_symbolizer_run(struct xp_symbolizer *symbolizer);

/* The strings live as long as the symbolizer; the place itself is valid until the next xp_symbolizer_want(). */
const struct xp_place *xp_symbolizer_place(const struct xp_symbolizer *symbolizer, uint32_t place);

/* The only copy of this string, cleaned. Lives as long as the symbolizer. Returns NULL if out of memory. */
const char *xp_symbolizer_text(struct xp_symbolizer *symbolizer, const char *text);

#endif
