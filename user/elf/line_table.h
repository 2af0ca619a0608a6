/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small DWARF 4 line table for a file without code: one line per function. llvm-symbolizer and llvm-xray (14 to 19)
 * require these parts to print file and line of an address: a compilation unit that contains the address, in
 * .debug_info with its .debug_abbrev, and its lines in .debug_line.
 *
 * Source of the format: the DWARF 4 specification, sections 6.2 and 7.
 */
#ifndef XPROF_ELF_LINE_TABLE_H
#define XPROF_ELF_LINE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct xp_source_line {
	const char *file; /* NULL: unknown */
	uint32_t line;	  /* 0: code without a line */
};

struct xp_line_table {
	uint8_t *lines; /* .debug_line */
	size_t line_bytes;
	uint8_t info[64]; /* .debug_info */
	size_t info_bytes;
	const uint8_t *abbrev; /* .debug_abbrev, static */
	size_t abbrev_bytes;
};

/*
 * Makes the table of `count` consecutive functions of function_bytes each, from `start` on. Returns 0, -ENODATA if no
 * line is known, -EFBIG beyond 4 GiB, or -ENOMEM. The caller frees it with xp_line_table_free().
 */
int xp_line_table_make(struct xp_line_table *table, const struct xp_source_line *lines, size_t count, uint64_t start,
		       uint64_t function_bytes);
void xp_line_table_free(struct xp_line_table *table);

#endif
