// SPDX-License-Identifier: BSD-2-Clause
#include "jit/deferred.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Usually all lines of a function have the same file. */
static bool has_file_of_last(const struct xp_jit_load *load, size_t line)
{
	return line && !strcmp(load->lines[line].file, load->lines[line - 1].file);
}

size_t xp_jit_deferred_bytes(const struct xp_jit_load *load)
{
	size_t bytes = sizeof(struct xp_jit_deferred) + load->line_count * sizeof(*load->lines) +
		       (load->code ? load->size : 0) + load->eh_frame_bytes + load->eh_frame_hdr_bytes;

	for (size_t i = 0; i < load->line_count; i++)
		if (!has_file_of_last(load, i))
			bytes += strlen(load->lines[i].file) + 1;
	return bytes;
}

/* Copies to *end and advances it. */
static const void *put(uint8_t **end, const void *bytes, size_t count)
{
	void *copy = *end;

	if (!bytes)
		return NULL;
	*end += count;
	return memcpy(copy, bytes, count);
}

struct xp_jit_deferred *xp_jit_deferred_new(uint32_t index, const struct xp_jit_load *load)
{
	size_t bytes = xp_jit_deferred_bytes(load);
	struct xp_jit_deferred *late = malloc(bytes);
	struct xp_jit_line *lines;
	uint8_t *end;

	if (!late)
		return NULL;
	*late = (struct xp_jit_deferred){ .index = index, .bytes = bytes, .load = *load };
	lines = (struct xp_jit_line *)(late + 1);
	end = (uint8_t *)(lines + load->line_count);
	for (size_t i = 0; i < load->line_count; i++) {
		const char *file = load->lines[i].file;

		lines[i] = load->lines[i];
		lines[i].file = has_file_of_last(load, i) ? lines[i - 1].file : put(&end, file, strlen(file) + 1);
	}
	late->load.name = NULL;
	late->load.lines = lines;
	late->load.code = put(&end, load->code, load->size);
	late->load.eh_frame = put(&end, load->eh_frame, load->eh_frame_bytes);
	late->load.eh_frame_hdr = put(&end, load->eh_frame_hdr, load->eh_frame_hdr_bytes);
	return late;
}
