// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the walk through the list of GDB's JIT interface, and all that its entries lead to: the memory of the process
 * is the input. The first byte says at which read it changes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "jit_src_gdb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

#include "fake_memory.h"

static void loaded(void *arg, uint32_t index, const struct xp_jit_load *load)
{
	(void)arg;
	(void)index;
	CHECK(load->size && strlen(load->name) <= XP_JIT_NAME_BYTES_MAX);
	for (size_t i = 0; i < load->line_count; i++)
		CHECK(load->lines[i].address - load->start < load->size && strlen(load->lines[i].file) <= 3 * 4096);
	/* Read by the sanitizer. */
	if (load->eh_frame_bytes)
		CHECK(memchr(load->eh_frame, 0, load->eh_frame_bytes) || load->eh_frame);
	if (load->code)
		CHECK(load->code[0] + load->code[load->size - 1] >= 0);
}

static void moved(void *arg, uint32_t index, uint64_t tsc, uint64_t old_start, uint64_t new_start, uint64_t size)
{
	(void)arg;
	(void)index;
	(void)tsc;
	(void)old_start;
	(void)new_start;
	(void)size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct xp_jit_observer observer = { loaded, moved, NULL };
	struct xp_jit_bytes bytes = { .pid = 1 };
	struct xp_jit_src_gdb *gdb;
	struct xp_jit_code *code;
	struct xp_jit_range range;
	uint64_t left = 64 << 20;

	if (!size)
		return -1;
	CHECK(!xp_jit_src_gdb_open(&gdb, 1, FAKE_BASE) && !xp_jit_code_new(&code, &left, &observer));
	for (uint64_t tsc = 1; tsc <= 3; tsc++) {
		fake_memory(data + 1, size - 1, tsc == 2 ? data[0] : 0);
		xp_jit_bytes_begin(&bytes, 1 << 20);
		CHECK(xp_jit_src_gdb_refresh(gdb, code, tsc == 1 ? NULL : &bytes, tsc, tsc == 2) >= 0);
		xp_jit_code_find(code, FAKE_BASE + 4096, tsc, &range);
	}
	xp_jit_code_settle(code);
	xp_jit_src_gdb_free(gdb);
	xp_jit_code_free(code);
	xp_jit_bytes_free(&bytes);
	CHECK(left == 64 << 20);
	return 0;
}
