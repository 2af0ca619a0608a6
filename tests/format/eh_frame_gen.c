// SPDX-License-Identifier: BSD-2-Clause
/*
 * Lays .eh_frame out for single functions: eh_frame_gen SECTION_FILE ADDRESS < "START SIZE" lines, all hexadecimal.
 * For each function a line: the frame's and the header's bytes, "-" where there is nothing.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file_view.h"
#include "jit/eh_frame.h"

static void print_bytes(const uint8_t *bytes, size_t size, char end)
{
	for (size_t i = 0; i < size; i++)
		printf("%02x", bytes[i]);
	putchar(end);
}

int main(int argc, char **argv)
{
	struct xp_jit_eh_frames frames;
	struct xp_jit_eh_frame made;
	struct xp_file_view view;
	uint64_t start, size;

	if (argc != 3 || xp_file_view_open(&view, AT_FDCWD, argv[1]))
		return 2;
	if (xp_jit_eh_frames_read(&frames, view.bytes, view.size, strtoull(argv[2], NULL, 16)))
		return 1;
	while (scanf("%" SCNx64 " %" SCNx64, &start, &size) == 2) {
		if (xp_jit_eh_frame_make(&made, &frames, start, size)) {
			puts("-");
			continue;
		}
		print_bytes(made.frame, made.frame_bytes, ' ');
		print_bytes(made.header, made.header_bytes, '\n');
		xp_jit_eh_frame_free(&made);
	}
	xp_jit_eh_frames_free(&frames);
	xp_file_view_close(&view);
	return 0;
}
