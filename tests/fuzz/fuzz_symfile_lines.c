// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the lines of a JIT compiler's symfile. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "jit/symfile_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xp_dwarf_lines lines;
	size_t bytes = 0, count;

	if (xp_jit_symfile_lines(&lines, data, size))
		abort();
	for (size_t i = 0; i < lines.count; i++) {
		if (i && lines.lines[i].address <= lines.lines[i - 1].address)
			abort();
		bytes += strlen(lines.lines[i].file);
	}
	if (lines.count) {
		xp_dwarf_lines_of(&lines, lines.lines[0].address, 1, &count);
		if (count != 1 || bytes > lines.count * 4096 * 3)
			abort();
		xp_dwarf_lines_of(&lines, lines.lines[0].address, UINT64_MAX, &count);
		if (!count || count > lines.count)
			abort();
	}
	xp_dwarf_lines_free(&lines);
	return 0;
}
