// SPDX-License-Identifier: BSD-2-Clause
/* Prints the lines of a symfile: symfile_lines FILE -> "ADDRESS LINE DISCRIMINATOR PATH" */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/file_view.h"
#include "jit/symfile_lines.h"

int main(int argc, char **argv)
{
	struct xp_jit_line_reader reader = { 0 };
	struct xp_jit_lines lines;
	struct xp_file_view view;

	if (argc != 2 || xp_file_view_open(&view, AT_FDCWD, argv[1]))
		return 2;
	xp_jit_lines_read(&lines, &reader, view.bytes, view.size);
	if (reader.failures)
		return 1;
	for (size_t i = 0; i < lines.count; i++)
		printf("%" PRIx64 " %u %u %s\n", lines.lines[i].address, lines.lines[i].line,
		       lines.lines[i].discriminator, lines.lines[i].file);
	xp_jit_line_reader_stop(&reader);
	xp_jit_lines_free(&lines);
	xp_file_view_close(&view);
	return 0;
}
