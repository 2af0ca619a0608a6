// SPDX-License-Identifier: BSD-2-Clause
#include "jit/code_bytes.h"

#include <stdlib.h>

#include "base/util.h"

/*
 * If a function starts at most this many bytes after the end of the last function, a read fetches this many bytes
 * beyond the function.
 */
#define AHEAD_BYTES (64u << 10)

void xp_jit_bytes_begin(struct xp_jit_bytes *bytes, uint64_t left)
{
	bytes->left = left;
	bytes->size = 0;
	bytes->last = 0;
}

static void fill(struct xp_jit_bytes *bytes, uint64_t start, uint64_t size)
{
	bool follows = start >= bytes->last && start - bytes->last < AHEAD_BYTES;
	ssize_t n = xp_target_memory_read_some(bytes->memory, bytes->pid, start, bytes->buffer,
					       follows ? XP_MAX(size, (uint64_t)AHEAD_BYTES) : size);

	bytes->start = start;
	bytes->size = n > 0 ? (size_t)n : 0;
}

const uint8_t *xp_jit_bytes_read(struct xp_jit_bytes *bytes, uint64_t start, uint64_t size)
{
	if (!bytes || !size || size > XP_JIT_BYTES_MAX || size > bytes->left)
		return NULL;
	bytes->left -= size;
	if (!bytes->buffer)
		bytes->buffer = malloc(XP_JIT_BYTES_MAX);
	if (!bytes->buffer)
		return NULL;
	if (start < bytes->start || start - bytes->start > bytes->size || size > bytes->size - (start - bytes->start))
		fill(bytes, start, size);
	bytes->last = start + size;
	return size <= bytes->size - (start - bytes->start) ? bytes->buffer + (start - bytes->start) : NULL;
}

void xp_jit_bytes_free(struct xp_jit_bytes *bytes)
{
	free(bytes->buffer);
	bytes->buffer = NULL;
	bytes->size = 0;
}
