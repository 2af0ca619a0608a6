// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the reader of a runtime's jitdump: a file that grows in pieces gives the same result as a complete file. The
 * first byte is the size of the pieces.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

#include "jit/src_dump.h"

struct result {
	uint64_t hash; /* a checksum of all events of the observer */
	uint64_t skipped;
	int end;
};

static void hear(struct result *result, const void *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		result->hash = (result->hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3u;
}

static void hear_load(void *arg, uint32_t index, const struct xp_jit_load *load)
{
	uint64_t last = load->start;

	hear(arg, &index, sizeof(index));
	hear(arg, &load->start, sizeof(load->start));
	hear(arg, load->name, strlen(load->name));
	if (load->code)
		hear(arg, load->code, load->size);
	for (size_t i = 0; i < load->line_count; i++) {
		CHECK(load->lines[i].address >= last && load->lines[i].address - load->start < load->size);
		last = load->lines[i].address;
		hear(arg, load->lines[i].file, strlen(load->lines[i].file));
	}
	for (size_t i = 0; load->unwinding && i < load->unwinding->count; i++)
		hear(arg, load->unwinding->all[i].program, load->unwinding->all[i].program_bytes);
}

static void hear_move(void *arg, uint32_t index, uint64_t tsc, uint64_t old_start, uint64_t new_start, uint64_t size)
{
	const uint64_t all[] = { index, tsc, old_start, new_start, size };

	hear(arg, all, sizeof(all));
}

static struct result read_in_pieces(const uint8_t *data, size_t size, size_t piece)
{
	static const struct xp_clock clock = { .hz = 1000000000, .mono_hz = 1000000000 };
	struct result result = { .hash = 0xcbf29ce484222325u };
	const struct xp_jit_observer observer = { hear_load, hear_move, &result };
	struct xp_jit_src_dump *dump;
	struct xp_jit_code *code;
	uint64_t room = 64 << 20;
	int fd = memfd_create("fuzz", 0);

	CHECK(fd >= 0);
	CHECK(!xp_jit_code_new(&code, &room, &observer));
	CHECK(!xp_jit_src_dump_new(&dump, fd, 42));
	for (size_t at = 0; at < size && !result.end; at += piece) {
		size_t part = size - at < piece ? size - at : piece;

		CHECK(pwrite(fd, data + at, part, at) == (ssize_t)part);
		result.end = xp_jit_src_dump_refresh(dump, code, &clock, 1000000);
	}
	CHECK(!result.end || result.end == -EBADMSG);
	result.skipped = xp_jit_src_dump_skipped(dump);
	xp_jit_src_dump_free(dump);
	xp_jit_code_free(code);
	CHECK(room == 64 << 20);
	return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct result whole, pieces;
	size_t piece;

	if (!size)
		return 0;
	piece = 1 + data[0];
	if (size / piece > 50)
		piece = size / 50;
	whole = read_in_pieces(data + 1, size - 1, size);
	pieces = read_in_pieces(data + 1, size - 1, piece);
	CHECK(whole.hash == pieces.hash && whole.skipped == pieces.skipped && whole.end == pieces.end);
	return 0;
}
