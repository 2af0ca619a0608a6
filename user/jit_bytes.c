// SPDX-License-Identifier: BSD-2-Clause
#include "jit_bytes.h"

#include <stdlib.h>

#include "target_memory.h"

const uint8_t *xp_jit_bytes_read(struct xp_jit_bytes *bytes, uint64_t start, uint64_t size)
{
	if (!bytes || !size || size > XP_JIT_BYTES_MAX || size > bytes->left)
		return NULL;
	bytes->left -= size;
	if (!bytes->buffer)
		bytes->buffer = malloc(XP_JIT_BYTES_MAX);
	return bytes->buffer && !xp_target_memory_read(bytes->pid, start, bytes->buffer, size) ? bytes->buffer : NULL;
}

void xp_jit_bytes_free(struct xp_jit_bytes *bytes)
{
	free(bytes->buffer);
	bytes->buffer = NULL;
}
