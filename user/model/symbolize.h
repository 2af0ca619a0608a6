/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Converts addresses in many ELF files to demangled functions and lines. The files may be hostile: elf/names.h reads
 * each in a confined process (confined.h). If that process dies, a second one reads only the symbol tables; if that
 * dies, too, the addresses have no names. All processes together have XP_NAMES_SECONDS: names found in that time are
 * used, and a warning reports the rest. First request all addresses, then name them, then read the names.
 */
#ifndef XPROF_MODEL_SYMBOLIZE_H
#define XPROF_MODEL_SYMBOLIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/questions.h"
#include "model/binaries.h"

/* Limits: further addresses are not named, nor are addresses when the strings use this much memory. */
#define XP_PLACES_MAX (16u << 20)
#define XP_NAMES_BYTES_MAX (256u << 20)
#define XP_NAMES_SECONDS 120

struct xp_symbolizer;

/* A requested address. */
struct xp_place {
	uint64_t vaddr;
	struct xp_source_frame *frames; /* the innermost first; the last one is not inlined */
	uint32_t frame_count;		/* 0: unknown */
};

/* Returns 0 or -ENOMEM. */
int xp_symbolizer_new(struct xp_symbolizer **symbolizer, enum xp_name_detail detail);
void xp_symbolizer_free(struct xp_symbolizer *symbolizer);

/* Sets another time limit than XP_NAMES_SECONDS. */
void xp_symbolizer_limit(struct xp_symbolizer *symbolizer, uint64_t ns);

/* Which file to use. */
enum xp_symbolizer_want_of {
	XP_FILE_ANY,	  /* the file at the path, with any build ID */
	XP_FILE_RECORDED, /* the recorded file, if its build ID proves that */
};

/*
 * Sets *file to the index of the file with this path, the same for the same path. build_id_bytes not 0: the file must
 * have this build ID. A file that is not the recorded one gets no names, and this prints a warning. An unreadable file
 * gets no names either, nor does a relative path ("[vdso]"). Returns 0 or -ENOMEM.
 */
struct xp_symbolizer_file {
	const char *path;
	const uint8_t *build_id;
	size_t build_id_bytes;
	enum xp_symbolizer_want_of want;
};
int xp_symbolizer_file(struct xp_symbolizer *symbolizer, const struct xp_symbolizer_file *wanted, uint32_t *file);
/* Like xp_symbolizer_file(), for a binary of a recording: uses its names in sym/ for the file at its path. */
int xp_symbolizer_binary(struct xp_symbolizer *symbolizer, const struct xp_recorded_binary *binary, uint32_t *file);

/* Returns whether the file is an ELF file, and the recorded one. */
bool xp_symbolizer_is_readable(const struct xp_symbolizer *symbolizer, uint32_t file);
/* Returns the path without links; the path itself for an unreadable file; the recorded path of a recorded binary. */
const char *xp_symbolizer_real_path(const struct xp_symbolizer *symbolizer, uint32_t file);

/* Copies the build id of the file, at most 64 bytes. Returns its length; 0: none, or the file cannot be read. */
size_t xp_symbolizer_build_id(const struct xp_symbolizer *symbolizer, uint32_t file, uint8_t *to);

/* Lists the functions of the file that have sleds. Like xp_elf_ask_functions(). */
int xp_symbolizer_functions(struct xp_symbolizer *symbolizer, uint32_t file, size_t max,
			    struct xp_elf_functions *functions);

/*
 * Returns the address as linked of code that is mapped `distance` bytes after the start of a mapping with file offset
 * `offset`. Returns distance + offset if the file has no such code.
 */
uint64_t xp_symbolizer_vaddr(const struct xp_symbolizer *symbolizer, uint32_t file, uint64_t offset, uint64_t distance);

/* Requests the name of an address as linked. *place: index for xp_symbolizer_place(). Returns 0, -ENOMEM or -E2BIG. */
int xp_symbolizer_want(struct xp_symbolizer *symbolizer, uint32_t file, uint64_t vaddr, uint32_t *place);

/* Names all addresses requested since the last run. Returns 0, -ENOMEM, or an error of fork(2) or pipe(2). */
int xp_symbolizer_run(struct xp_symbolizer *symbolizer);

/* Strings live as long as the symbolizer; the place itself is valid until the next xp_symbolizer_want(). */
const struct xp_place *xp_symbolizer_place(const struct xp_symbolizer *symbolizer, uint32_t place);

/* Returns the only copy of this string, cleaned; valid as long as the symbolizer. NULL: out of memory. */
const char *xp_symbolizer_text(struct xp_symbolizer *symbolizer, const char *text);

#endif
