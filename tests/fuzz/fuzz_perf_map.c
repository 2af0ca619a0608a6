// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the reader of perf maps, in pieces, and the registry of JIT code that it fills. */
#include <stdbool.h>
#include <string.h>

#include "fuzz.h"

#include "jit/code.h"
#include "jit/perf_map.h"

struct taker {
	struct xp_jit_code *code;
	uint64_t tsc;
};

static int take(void *arg, const struct xp_perf_map_entry *entry)
{
	struct taker *taker = arg;
	struct xp_jit_load load = {
		.tsc = ++taker->tsc, .start = entry->start, .size = entry->size, .name = entry->name
	};
	struct xp_jit_range range;

	CHECK(*entry->name && strlen(entry->name) < XP_PERF_MAP_LINE_BYTES_MAX);
	if (xp_jit_code_load(taker->code, &load, NULL))
		return 0;
	CHECK(xp_jit_code_find(taker->code, entry->start + entry->size - 1, taker->tsc, &range));
	CHECK(range.start == entry->start && range.size == entry->size);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t bytes_left = 1 << 20;
	struct xp_perf_map map = { 0 };
	struct taker taker = { 0 };

	CHECK(!xp_jit_code_new(&taker.code, &bytes_left, NULL));
	/* The first byte of each piece is its length. */
	while (size) {
		size_t piece = data[0] < size ? data[0] : size - 1;

		CHECK(!xp_perf_map_feed(&map, (const char *)data + 1, piece, take, &taker));
		data += 1 + piece;
		size -= 1 + piece;
	}
	xp_jit_code_free(taker.code);
	CHECK(bytes_left == 1 << 20);
	return 0;
}
