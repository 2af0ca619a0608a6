/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DWARF's line tables, versions 2 to 5: which line of the source each address comes from. Pure, and for bytes that a
 * target has made: it stays inside them, and what it takes of memory is bounded.
 *
 * Source of the format: "DWARF Debugging Information Format, Version 5", 6.2, and version 4, 6.2.
 */
#ifndef XPROF_DWARF_LINE_H
#define XPROF_DWARF_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_DWARF_LINES_MAX (1u << 20)
#define XP_DWARF_FILES_MAX 65536 /* and directories */
#define XP_DWARF_PATHS_MAX 4096	 /* of files that have lines */

struct xp_dwarf_section {
	const uint8_t *bytes;
	size_t size;
};

struct xp_dwarf_line_input {
	struct xp_dwarf_section line;	  /* .debug_line */
	struct xp_dwarf_section line_str; /* .debug_line_str; may be empty */
	struct xp_dwarf_section str;	  /* .debug_str; may be empty */
	/* The value that a number at this offset of .debug_line stands for; NULL: each for itself. */
	uint64_t (*relocate)(void *arg, uint64_t offset, uint64_t value);
	void *arg;
};

/* It holds from its address to the next one's, as far as the function goes. */
struct xp_dwarf_line {
	uint64_t address;
	uint32_t line; /* 0: none */
	uint32_t discriminator;
	uint32_t number;  /* private: which it was in the table */
	const char *file; /* path, as far as the table has it */
};

struct xp_dwarf_lines {
	struct xp_dwarf_line *lines; /* in order of address */
	size_t count;
	char **paths;
	size_t path_count;
};

/* -ENOMEM. A unit that is malformed ends where it is; the others are read. The caller frees. */
int xp_dwarf_lines_read(struct xp_dwarf_lines *lines, const struct xp_dwarf_line_input *input);
void xp_dwarf_lines_free(struct xp_dwarf_lines *lines);

/* Those that begin in [start, start + size). */
const struct xp_dwarf_line *xp_dwarf_lines_of(const struct xp_dwarf_lines *lines, uint64_t start, uint64_t size,
					      size_t *count);

#endif
