/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DWARF line tables, versions 2 to 5: the source line of each address. Pure. The bytes come from a target and are
 * untrusted: the reader stays inside them and takes bounded memory.
 *
 * Source of the format: "DWARF Debugging Information Format, Version 5", 6.2, and version 4, 6.2.
 */
#ifndef XPROF_JIT_DWARF_LINE_H
#define XPROF_JIT_DWARF_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_DWARF_LINES_MAX (1u << 20)
#define XP_DWARF_FILES_MAX 65536 /* and directories */
#define XP_DWARF_PATHS_MAX 4096	 /* of files with lines */

struct xp_dwarf_section {
	const uint8_t *bytes;
	size_t size;
};

struct xp_dwarf_line_input {
	struct xp_dwarf_section line;	  /* .debug_line */
	struct xp_dwarf_section line_str; /* .debug_line_str; may be empty */
	struct xp_dwarf_section str;	  /* .debug_str; may be empty */
	/* Returns the value of a number at this offset of .debug_line; NULL: the numbers need no relocation. */
	uint64_t (*relocate)(void *arg, uint64_t offset, uint64_t value);
	void *arg;
};

/* Applies from its address to that of the next line, within the function. */
struct xp_dwarf_line {
	uint64_t address;
	uint32_t line; /* 0: none */
	uint32_t discriminator;
	uint32_t number;  /* private: position in the table */
	const char *file; /* path, as complete as in the table */
};

struct xp_dwarf_lines {
	struct xp_dwarf_line *lines; /* in address order */
	size_t count;
	char **paths;
	size_t path_count;
};

/* A malformed unit ends at its error; the other units are still read. The caller frees. Returns 0 or -ENOMEM. */
int xp_dwarf_lines_read(struct xp_dwarf_lines *lines, const struct xp_dwarf_line_input *input);
void xp_dwarf_lines_free(struct xp_dwarf_lines *lines);

/* The lines that begin in [start, start + size). */
const struct xp_dwarf_line *xp_dwarf_lines_of(const struct xp_dwarf_lines *lines, uint64_t start, uint64_t size,
					      size_t *count);

#endif
