// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the reader of the list of GDB's JIT interface, and of the memory that its entries point to: the input is the
 * memory of the process. The first byte selects the read at which the memory changes, and whether a jitdump is written.
 */
#include <string.h>

#include "fuzz.h"

#include "jit/dump_out.h"
#include "jit/src_gdb.h"

#include "fake_memory.h"

#include "scratch.h"

/* arg: the jitdump, or NULL. */
static void loaded(void *arg, uint32_t index, const struct xp_jit_load *load)
{
	CHECK(load->size && strlen(load->name) <= XP_JIT_NAME_BYTES_MAX);
	for (size_t i = 0; i < load->line_count; i++)
		CHECK(load->lines[i].address - load->start < load->size && strlen(load->lines[i].file) <= 3 * 4096);
	if (arg)
		xp_jit_dump_out_load(arg, index, load);
}

static void moved(void *arg, uint32_t index, uint64_t tsc, uint64_t old_start, uint64_t new_start, uint64_t size)
{
	if (arg)
		xp_jit_dump_out_move(arg, index, tsc, old_start, new_start, size);
}

static void walk(const uint8_t *data, size_t size, struct xp_jit_dump_out *out)
{
	const struct xp_jit_observer observer = { loaded, moved, out };
	struct xp_jit_bytes bytes = { .pid = 1 };
	struct xp_jit_src_gdb *gdb;
	struct xp_jit_code *code;
	struct xp_jit_range range;
	uint64_t left = 64 << 20;

	CHECK(!xp_jit_src_gdb_open(&gdb, 1, FAKE_BASE) && !xp_jit_code_new(&code, &left, &observer));
	for (uint64_t tsc = 1; tsc <= 3; tsc++) {
		fake_memory(data + 1, size - 1, tsc == 2 ? data[0] & 0x7f : 0);
		xp_jit_bytes_begin(&bytes, 1 << 20);
		CHECK(xp_jit_src_gdb_refresh(gdb, code, tsc == 1 ? NULL : &bytes, tsc, tsc == 2) >= 0);
		xp_jit_code_find(code, FAKE_BASE + 4096, tsc, &range);
	}
	xp_jit_code_settle(code);
	xp_jit_src_gdb_free(gdb);
	xp_jit_code_free(code);
	xp_jit_bytes_free(&bytes);
	CHECK(left == 64 << 20);
}

/* The jitdump that a recording writes from the list is valid, too. */
static void walk_and_dump(const uint8_t *data, size_t size)
{
	uint64_t left = 1 << 20;
	struct scratch scratch = scratch_make();
	struct xp_jit_dump_out_options options = {
		.dir_fd = scratch.fd, .pid = 1, .start_tsc = 1, .bytes_left = &left
	};
	struct xp_jit_dump_out_counts counts;
	struct xp_jit_dump_out *out;

	CHECK(!xp_jit_dump_out_new(&out, &options));
	walk(data, size, out);
	CHECK(!xp_jit_dump_out_close(out, 4, &counts));
	if (counts.bytes)
		scratch_check(scratch.fd, xp_jit_dump_out_name(out));
	xp_jit_dump_out_free(out);
	scratch_remove(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return -1;
	if (data[0] & 0x80)
		walk_and_dump(data, size);
	else
		walk(data, size, NULL);
	return 0;
}
