// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the reader of a C library's stream buffer in a process: the input is its memory, which changes during the
 * reads.
 */
#include <string.h>

#include "fuzz.h"

#include "jit/stdio_tail.h"

#include "fake_memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct xp_stdio_tail tail = { .pid = 1, .fd = 3, .stream = FAKE_BASE };
	uint8_t *bytes;

	if (!size)
		return -1;
	bytes = malloc(XP_STDIO_TAIL_BYTES_MAX);
	CHECK(bytes);
	fake_memory(data + 1, size - 1, data[0] % 8);
	CHECK(xp_stdio_tail_read(&tail, bytes) <= (ssize_t)size);
	free(bytes);
	return 0;
}
