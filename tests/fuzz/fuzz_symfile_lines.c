// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the lines of a JIT compiler's symfile: an ELF file as the reader process gets it, anything else as an answer
 * of a reader that a file has taken over. libdw is not instrumented; what is looked for are faults of its caller.
 */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "jit/symfile_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

#define ANSWER_BYTES_MAX 65536 /* fits into a socket */

static void check(const struct xp_jit_lines *lines)
{
	size_t count;

	for (size_t i = 0; i < lines->count; i++)
		CHECK((!i || lines->lines[i].address > lines->lines[i - 1].address) &&
		      strlen(lines->lines[i].file) < XP_JIT_LINE_PATH_BYTES_MAX);
	if (!lines->count)
		return;
	CHECK(xp_jit_lines_of(lines, lines->lines[0].address, 1, &count) == lines->lines && count == 1);
	xp_jit_lines_of(lines, lines->lines[0].address, UINT64_MAX, &count);
	CHECK(count && count <= lines->count);
}

/* Returns whether the bytes are an answer. */
static bool receive(const void *bytes, size_t size)
{
	struct xp_jit_lines lines;
	bool is_good;
	int ends[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	CHECK(write(ends[1], bytes, size) == (ssize_t)size && !close(ends[1]));
	is_good = xp_jit_lines_receive(&lines, ends[0], xp_now_ns() + 1000000000);
	close(ends[0]);
	check(&lines);
	xp_jit_lines_free(&lines);
	return is_good;
}

static void answer(const uint8_t *data, size_t size)
{
	uint8_t *file = malloc(size);
	size_t bytes;
	char *text;
	FILE *out = open_memstream(&text, &bytes);

	CHECK(file && out);
	memcpy(file, data, size);
	CHECK(xp_jit_lines_answer(file, size, out) && !fclose(out));
	CHECK(bytes > ANSWER_BYTES_MAX || receive(text, bytes));
	free(text);
	free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size >= SELFMAG && !memcmp(data, ELFMAG, SELFMAG))
		answer(data, size);
	else if (size && size <= ANSWER_BYTES_MAX)
		receive(data, size);
	return 0;
}
