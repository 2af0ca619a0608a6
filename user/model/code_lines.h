/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the lines of JIT functions by address. A debug record can have any number of lines in any order, and a
 * recording can have many samples in one function. So the first lookup reads each record once into a sorted table.
 */
#ifndef XPROF_MODEL_CODE_LINES_H
#define XPROF_MODEL_CODE_LINES_H

#include "base/u64_map.h"
#include "format/jitdump_reader.h"

struct xp_code_line {
	uint64_t address;
	uint32_t order; /* position in the record */
	uint32_t line;
	const char *file; /* in the record */
};

/* Empty if zeroed. */
struct xp_code_lines {
	/* private */
	struct xp_code_line_table *tables;
	size_t count, room;
	struct xp_u64_map by_record; /* table index by the address of the record */
};

/*
 * Finds the line of an address: that of the last entry at or below it, and of several the last one in the record.
 * record: a whole debug record, which stays where it is. *line: NULL if there is none, or valid until the next call.
 * Returns 0 or -ENOMEM.
 */
int xp_code_lines_find(struct xp_code_lines *lines, const uint8_t *record, uint64_t address,
		       const struct xp_code_line **line);
void xp_code_lines_free(struct xp_code_lines *lines);

#endif
