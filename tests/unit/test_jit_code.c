/* SPDX-License-Identifier: BSD-2-Clause */
/* JIT code by address and time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/eh_frame.h"
#include "unit.h"

#include "base/util.h"
#include "jit/code.h"

#define PLENTY (64ull << 20)

struct fixture {
	struct xp_jit_code *code;
	uint64_t bytes_left;
	char heard[512]; /* events of the observer, one per line */
};

static void hear_load(void *arg, uint32_t index, const struct xp_jit_load *load)
{
	struct fixture *f = arg;
	size_t used = strlen(f->heard);

	snprintf(f->heard + used, sizeof(f->heard) - used, "load %u %s %#lx+%lu at %lu\n", index, load->name,
		 (unsigned long)load->start, (unsigned long)load->size, (unsigned long)load->tsc);
}

static void hear_move(void *arg, uint32_t index, uint64_t tsc, uint64_t old_start, uint64_t new_start, uint64_t size)
{
	struct fixture *f = arg;
	size_t used = strlen(f->heard);

	snprintf(f->heard + used, sizeof(f->heard) - used, "move %u %#lx to %#lx+%lu at %lu\n", index,
		 (unsigned long)old_start, (unsigned long)new_start, (unsigned long)size, (unsigned long)tsc);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct xp_jit_observer observer = { hear_load, hear_move, f };

	assert_non_null(f);
	f->bytes_left = PLENTY;
	assert_int_equal(xp_jit_code_new(&f->code, &f->bytes_left, &observer), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	xp_jit_code_free(f->code);
	assert_int_equal(f->bytes_left, PLENTY); /* the returned event */
	free(f);
	return 0;
}

static uint32_t load(struct fixture *f, uint64_t tsc, uint64_t start, uint64_t size, const char *name)
{
	struct xp_jit_load what = { .tsc = tsc, .start = start, .size = size, .name = name };
	uint32_t index = UINT32_MAX;

	assert_int_equal(xp_jit_code_load(f->code, &what, &index), 0);
	return index;
}

static const char *name_at(struct fixture *f, uint64_t address, uint64_t tsc)
{
	struct xp_jit_range range;

	return xp_jit_code_find(f->code, address, tsc, &range) ? range.name : "-";
}
#define CHECK_AT(f, address, tsc, name) assert_string_equal(name_at(f, address, tsc), name)

TEST_WITH(test_bounds, setup, teardown)
{
	struct fixture *f = *state;
	struct xp_jit_range range;

	CHECK_AT(f, 0, 0, "-");
	assert_int_equal(load(f, 100, 0x1000, 0x10, "a"), 0);
	CHECK_AT(f, 0xfff, 100, "-");
	CHECK_AT(f, 0x1000, 99, "-");
	CHECK_AT(f, 0x1000, 100, "a");
	CHECK_AT(f, 0x100f, UINT64_MAX - 1, "a");
	CHECK_AT(f, 0x1010, 100, "-");
	assert_true(xp_jit_code_find(f->code, 0x1008, 100, &range));
	assert_int_equal(range.index, 0);
	assert_int_equal(range.start, 0x1000);
	assert_int_equal(range.size, 0x10);
	assert_int_equal(xp_jit_code_count(f->code), 1);
}

TEST_WITH(test_replaced, setup, teardown)
{
	struct fixture *f = *state;

	load(f, 100, 0x1000, 0x100, "a");
	load(f, 200, 0x1000, 0x80, "b");
	load(f, 300, 0x1000, 0x100, "c");
	CHECK_AT(f, 0x1040, 150, "a");
	CHECK_AT(f, 0x1040, 200, "b");
	CHECK_AT(f, 0x1040, 299, "b");
	CHECK_AT(f, 0x1040, 300, "c");
	/* a has ended completely, although b replaced only its first half. */
	CHECK_AT(f, 0x10c0, 199, "a");
	CHECK_AT(f, 0x10c0, 200, "-");
	CHECK_AT(f, 0x10c0, 300, "c");
}

TEST_WITH(test_replaced_in_the_middle, setup, teardown)
{
	struct fixture *f = *state;
	struct xp_jit_range range;

	load(f, 0, 0x1000, 0x300, "a");
	load(f, 200, 0x1100, 0x100, "b");
	for (uint64_t address = 0x1000; address < 0x1300; address += 0x80)
		CHECK_AT(f, address, 199, "a");
	CHECK_AT(f, 0x1080, 200, "-");
	CHECK_AT(f, 0x1180, 200, "b");
	CHECK_AT(f, 0x1280, 200, "-");
	/* The rest of the code keeps its start. */
	assert_true(xp_jit_code_find(f->code, 0x1280, 100, &range));
	assert_int_equal(range.start, 0x1000);
	assert_int_equal(range.size, 0x300);
}

TEST_WITH(test_replaces_many, setup, teardown)
{
	struct fixture *f = *state;
	char name[16];

	for (unsigned int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		load(f, 10 + i, 0x1000 + 0x100 * (uint64_t)i, 0x80, name);
	}
	load(f, 500, 0x1040, 0x100 * 98, "all");
	for (unsigned int i = 0; i < 98; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		CHECK_AT(f, 0x1040 + 0x100 * (uint64_t)i, 499, name);
		CHECK_AT(f, 0x1040 + 0x100 * (uint64_t)i, 500, "all");
		CHECK_AT(f, 0x10c0 + 0x100 * (uint64_t)i, 499, "-");
	}
	CHECK_AT(f, 0x1000, 500, "-");
	CHECK_AT(f, 0x1000 + 0x100 * 99, 500, "f99");
}

TEST_WITH(test_moved, setup, teardown)
{
	struct fixture *f = *state;
	uint32_t index = load(f, 100, 0x1000, 0x100, "a");
	struct xp_jit_range range;

	assert_int_equal(xp_jit_code_move(f->code, index, 200, 0x5000), 0);
	CHECK_AT(f, 0x1000, 199, "a");
	CHECK_AT(f, 0x1000, 200, "-");
	CHECK_AT(f, 0x5000, 199, "-");
	assert_true(xp_jit_code_find(f->code, 0x5010, 200, &range));
	assert_int_equal(range.index, index);
	assert_int_equal(range.start, 0x5000);
	/* To an address that overlaps its old one. */
	assert_int_equal(xp_jit_code_move(f->code, index, 300, 0x4f80), 0);
	CHECK_AT(f, 0x5000, 299, "a");
	CHECK_AT(f, 0x5000, 300, "a");
	CHECK_AT(f, 0x50c0, 299, "a");
	CHECK_AT(f, 0x50c0, 300, "-");
	assert_int_equal(xp_jit_code_move(f->code, index, 400, 0x5000), 0);
	CHECK_AT(f, 0x4f80, 399, "a");
	CHECK_AT(f, 0x4f80, 400, "-");
	CHECK_AT(f, 0x50c0, 400, "a");
	/* Code can be moved only while it is loaded. */
	load(f, 500, 0x50f0, 0x10, "b");
	assert_int_equal(xp_jit_code_move(f->code, index, 600, 0x6000), -ENOENT);
	assert_int_equal(xp_jit_code_move(f->code, 77, 600, 0x6000), -ENOENT);
	assert_int_equal(xp_jit_code_count(f->code), 2);
	assert_string_equal(f->heard, "load 0 a 0x1000+256 at 100\n"
				      "move 0 0x1000 to 0x5000+256 at 200\n"
				      "move 0 0x5000 to 0x4f80+256 at 300\n"
				      "move 0 0x4f80 to 0x5000+256 at 400\n"
				      "load 1 b 0x50f0+16 at 500\n");
}

TEST_WITH(test_unloaded, setup, teardown)
{
	struct fixture *f = *state;
	uint32_t index = load(f, 100, 0x1000, 0x100, "a");

	assert_int_equal(xp_jit_code_unload(f->code, index, 200), 0);
	assert_int_equal(xp_jit_code_unload(f->code, index, 250), -ENOENT);
	CHECK_AT(f, 0x1000, 199, "a");
	CHECK_AT(f, 0x1000, 200, "-");
	assert_int_equal(load(f, 300, 0x1000, 0x100, "a"), 1);
	CHECK_AT(f, 0x1000, 199, "a");
	CHECK_AT(f, 0x1000, 299, "-");
	CHECK_AT(f, 0x1000, 300, "a");
}

TEST_WITH(test_known, setup, teardown)
{
	struct fixture *f = *state;
	const uint8_t one[] = { 1, 2, 3, 4 }, other[] = { 1, 2, 3, 5 };
	struct xp_jit_load what = { .tsc = 100, .start = 0x1000, .size = 4, .name = "a", .code = one };
	uint32_t index;

	assert_int_equal(xp_jit_code_load(f->code, &what, &index), 0);
	what.tsc = 200;
	assert_int_equal(xp_jit_code_load(f->code, &what, &index), 0);
	assert_int_equal(index, 0);
	what.code = NULL;
	assert_int_equal(xp_jit_code_load(f->code, &what, &index), 0);
	assert_int_equal(index, 0);
	what.code = other; /* recompiled */
	assert_int_equal(xp_jit_code_load(f->code, &what, &index), 0);
	assert_int_equal(index, 1);
	what.name = "b";
	assert_int_equal(xp_jit_code_load(f->code, &what, &index), 0);
	assert_int_equal(index, 2);
	assert_string_equal(f->heard, "load 0 a 0x1000+4 at 100\n"
				      "load 1 a 0x1000+4 at 200\n"
				      "load 2 b 0x1000+4 at 200\n");
}

/* An .eh_frame at 0x1010, for 0x10 bytes of code at 0x1000: CFA = rsp + 8 * words. */
static void make_eh_frame(uint8_t bytes[44], uint8_t words)
{
	static const uint8_t made[44] = { 20,	0,    0,  0, 0,	   0,  0, 0, 1,	   'z',	 'R',  0,
					  1,	0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1,	 0,    0, /* CIE */
					  16,	0,    0,  0, 28,   0,  0, 0, 0xd0, 0xff, 0xff, 0xff,
					  0x10, 0,    0,  0, 0 /* FDE, whose address field is at 0x30 */ };

	memcpy(bytes, made, sizeof(made));
	bytes[19] = (uint8_t)(8 * words);
}

static uint32_t load_with_rules(struct fixture *f, uint64_t tsc, uint8_t words, const char *code)
{
	struct xp_cfi_fdes fdes = { 0 };
	uint8_t eh_frame[44];
	struct xp_jit_load what = {
		.tsc = tsc,
		.start = 0x1000,
		.size = 0x10,
		.name = "a",
		.code = (const uint8_t *)code,
	};
	uint32_t index;

	if (words) {
		make_eh_frame(eh_frame, words);
		assert_int_equal(xp_jit_eh_frame_read(&fdes, eh_frame, sizeof(eh_frame), 0x1010), 0);
		what.unwinding = &fdes;
	}
	assert_int_equal(xp_jit_code_load(f->code, &what, &index), 0);
	xp_cfi_fdes_free(&fdes);
	return index;
}

/* Returns the words from rsp to the CFA; 0: no rule, -1: no code. */
static int words_at(struct fixture *f, uint64_t address, uint64_t tsc)
{
	struct xp_cfi_found found;

	if (!xp_jit_code_find_rule(f->code, address, tsc, &found))
		return -1;
	assert_true(found.row.rule == XP_CFI_NONE || found.row.rule == XP_CFI_RSP);
	return found.row.rule == XP_CFI_RSP ? found.row.cfa : 0;
}

#define BYTES_1 "0123456789abcdef"
#define BYTES_2 "fedcba9876543210"

/* Unwind rules are valid as long as their code. */
TEST_WITH(test_rules, setup, teardown)
{
	struct fixture *f = *state;
	uint32_t index;

	assert_false(xp_jit_code_has_rules(f->code));
	load(f, 50, 0x2000, 0x10, "none");
	assert_false(xp_jit_code_has_rules(f->code));
	load_with_rules(f, 100, 2, BYTES_1);
	assert_true(xp_jit_code_has_rules(f->code));
	load(f, 200, 0x1000, 0x10, "other");
	index = load_with_rules(f, 300, 3, BYTES_2);
	assert_int_equal(xp_jit_code_move(f->code, index, 400, 0x3000), 0);
	assert_int_equal(xp_jit_code_unload(f->code, index, 500), 0);
	assert_int_equal(words_at(f, 0x1000, 99), -1);
	assert_int_equal(words_at(f, 0x1000, 100), 2);
	assert_int_equal(words_at(f, 0x100f, 199), 2);
	assert_int_equal(words_at(f, 0x1010, 199), -1);
	assert_int_equal(words_at(f, 0x1000, 200), 0);
	assert_int_equal(words_at(f, 0x1000, 300), 3);
	assert_int_equal(words_at(f, 0x1000, 400), -1);
	assert_int_equal(words_at(f, 0x300f, 400), 3);
	assert_int_equal(words_at(f, 0x3000, 500), -1);
	assert_int_equal(words_at(f, 0x2000, 500), 0);
}

/* Two sources report the same function, one without rules and with other bytes, in either order. */
TEST_WITH(test_rules_of_two_sources, setup, teardown)
{
	struct fixture *f = *state;

	load_with_rules(f, 100, 2, BYTES_1);
	load_with_rules(f, 200, 0, BYTES_2);
	assert_int_equal(words_at(f, 0x1008, 150), 2);
	assert_int_equal(words_at(f, 0x1008, 250), 2);
	assert_int_equal(load_with_rules(f, 300, 2, BYTES_2), 1);
	load_with_rules(f, 400, 4, BYTES_1);
	assert_int_equal(words_at(f, 0x1008, 350), 2);
	assert_int_equal(words_at(f, 0x1008, 450), 4);
}

/* The same bytes, first without rules. */
TEST_WITH(test_rules_later, setup, teardown)
{
	struct fixture *f = *state;
	uint64_t left;

	assert_int_equal(load_with_rules(f, 100, 0, BYTES_1), 0);
	assert_int_equal(words_at(f, 0x1008, 150), 0);
	left = f->bytes_left;
	assert_int_equal(load_with_rules(f, 200, 2, BYTES_1), 0);
	assert_int_equal(words_at(f, 0x1008, 150), 2);
	assert_true(f->bytes_left < left);
	left = f->bytes_left;
	assert_int_equal(load_with_rules(f, 300, 3, BYTES_1), 0);
	assert_int_equal(words_at(f, 0x1008, 350), 2);
	assert_int_equal(f->bytes_left, left);
}

TEST_WITH(test_only_a_bound, setup, teardown)
{
	struct fixture *f = *state;
	struct xp_jit_load what = { .tsc = 500, .is_bound = true, .start = 0x1000, .size = 0x100, .name = "a" };

	assert_int_equal(xp_jit_code_load(f->code, &what, NULL), 0);
	CHECK_AT(f, 0x1000, 0, "a");
	what.tsc = 700;
	what.name = "b";
	assert_int_equal(xp_jit_code_load(f->code, &what, NULL), 0);
	CHECK_AT(f, 0x1000, 699, "a");
	CHECK_AT(f, 0x1000, 700, "b");
	assert_string_equal(f->heard, "load 0 a 0x1000+256 at 0\nload 1 b 0x1000+256 at 700\n");
}

TEST_WITH(test_late, setup, teardown)
{
	struct fixture *f = *state;

	load(f, 500, 0x1000, 0x100, "a");
	load(f, 300, 0x1080, 0x100, "b");
	CHECK_AT(f, 0x10c0, 499, "-");
	CHECK_AT(f, 0x10c0, 500, "b");
	assert_string_equal(f->heard, "load 0 a 0x1000+256 at 500\nload 1 b 0x1080+256 at 500\n");
}

TEST_WITH(test_refused, setup, teardown)
{
	struct fixture *f = *state;
	static const struct {
		uint64_t start;
		uint64_t size;
	} bad[] = { { 0x1000, 0 },
		    { UINT64_MAX - 1, 4 },
		    { 0xffffffff80000000, 4 },
		    { 0x1000, UINT64_MAX },
		    { 0x1000, XP_JIT_SIZE_MAX + 1 } };
	uint32_t index = load(f, 1, 0x1000, 0x100, "a");

	for (size_t i = 0; i < XP_ARRAY_SIZE(bad); i++) {
		struct xp_jit_load what = { .start = bad[i].start, .size = bad[i].size, .name = "bad" };

		assert_int_equal(xp_jit_code_load(f->code, &what, NULL), -EINVAL);
	}
	assert_int_equal(xp_jit_code_move(f->code, index, 2, UINT64_MAX - 8), -EINVAL);
	assert_int_equal(xp_jit_code_count(f->code), 1);
	assert_int_equal(xp_jit_code_refused(f->code), 0);
}

/* A perf map also names code of a file: only the rest is used. */
TEST_WITH(test_not_in_files, setup, teardown)
{
	struct fixture *f = *state;
	struct xp_file lib = { .kind = XP_FILE_DISK, .path = "/lib/a.so" };
	struct xp_file memory = { .kind = XP_FILE_ANON, .path = "//anon" };
	struct xp_file memfd = { .kind = XP_FILE_DISK, .path = "/memfd:doublemapper (deleted)" };
	const struct xp_vma vmas[] = { { 0x1000, 0x2000, 0, &lib },
				       { 0x2000, 0x3000, 0, &memory },
				       { 0x4000, 0x5000, 0, &memfd } };
	static const struct {
		uint64_t start;
		int err;
	} places[] = { { 0x0fff, 0 }, { 0x0f01, -EINVAL }, { 0x1000, -EINVAL }, { 0x1fff, -EINVAL },
		       { 0x2000, 0 }, { 0x3000, 0 },	   { 0x4000, 0 } };
	struct xp_address_space space = { 0 };

	for (size_t i = 0; i < XP_ARRAY_SIZE(vmas); i++)
		assert_int_equal(xp_address_space_map(&space, &vmas[i]), 0);
	xp_jit_code_bind(f->code, &space);
	for (size_t i = 0; i < XP_ARRAY_SIZE(places); i++) {
		struct xp_jit_load what = { .start = places[i].start, .size = i ? 0x100 : 1, .name = "a" };

		assert_int_equal(xp_jit_code_load(f->code, &what, NULL), places[i].err);
	}
	load(f, 1, 0x8000, 0x100, "b");
	assert_int_equal(xp_jit_code_move(f->code, xp_jit_code_count(f->code) - 1, 2, 0x1200), -EINVAL);
	xp_address_space_free(&space);
}

/* The observer gets code only after its memory. */
TEST_WITH(test_since, setup, teardown)
{
	struct fixture *f = *state;
	struct xp_jit_load what = { .is_bound = true, .start = 0x1000, .size = 0x100, .name = "a" };
	struct xp_file memory = { .kind = XP_FILE_ANON, .path = "" };
	struct xp_address_space space = { 0 };

	assert_int_equal(xp_address_space_map_jit(&space, 0x1000, 0x2000, 5000), 0);
	assert_int_equal(xp_address_space_map(&space, &(struct xp_vma){ 0x1000, 0x4000, 0, &memory }), 0);
	xp_jit_code_bind(f->code, &space);
	assert_int_equal(xp_jit_code_load(f->code, &what, NULL), 0);
	what.start = 0x1100;
	what.tsc = 100;
	what.is_bound = false;
	assert_int_equal(xp_jit_code_load(f->code, &what, NULL), 0);
	what.is_bound = true;
	what.name = "b";
	assert_int_equal(xp_jit_code_load(f->code, &what, NULL), 0);
	what.start = 0x3000;
	what.tsc = 0;
	assert_int_equal(xp_jit_code_load(f->code, &what, NULL), 0);
	assert_string_equal(f->heard, "load 0 a 0x1000+256 at 6000\nload 1 a 0x1100+256 at 100\n"
				      "load 2 b 0x1100+256 at 6000\nload 3 b 0x3000+256 at 0\n");
	xp_address_space_free(&space);
}

/* Prints all data of a load, which is valid only during the call. */
static int load_with_lines(struct fixture *f, uint64_t start, const char *name)
{
	char files[2][8] = { "a.c", "b.c" }, code[] = "code";
	struct xp_jit_line lines[] = { { start, 1, 0, files[0] },
				       { start + 1, 2, 0, files[0] },
				       { start + 2, 3, 0, files[1] } };
	struct xp_jit_load what = {
		.is_bound = true,
		.start = start,
		.size = sizeof(code),
		.name = name,
		.code = (const uint8_t *)code,
		.lines = lines,
		.line_count = XP_ARRAY_SIZE(lines),
	};
	int err = xp_jit_code_load(f->code, &what, NULL);

	memset(files, 'x', sizeof(files));
	memset(code, 'x', sizeof(code));
	memset(lines, 0, sizeof(lines));
	return err;
}

static void hear_all(void *arg, uint32_t index, const struct xp_jit_load *load)
{
	struct fixture *f = arg;

	hear_load(f, index, load);
	assert_string_equal((const char *)load->code, "code");
	assert_int_equal(load->line_count, 3);
	assert_string_equal(load->lines[0].file, "a.c");
	assert_string_equal(load->lines[1].file, "a.c");
	assert_string_equal(load->lines[2].file, "b.c");
	assert_int_equal(load->lines[2].address, load->start + 2);
	assert_int_equal(load->lines[2].line, 3);
}

/* A source reports code in memory that is not in the address space yet. */
TEST_WITH(test_before_its_memory, setup, teardown)
{
	struct fixture *f = *state;
	struct xp_jit_observer observer = { hear_all, hear_move, f };
	struct xp_file memory = { .kind = XP_FILE_ANON, .path = "" };
	struct xp_address_space space = { 0 };
	uint64_t bytes_left;

	xp_jit_code_free(f->code);
	assert_int_equal(xp_jit_code_new(&f->code, &f->bytes_left, &observer), 0);
	xp_jit_code_bind(f->code, &space);
	assert_int_equal(load_with_lines(f, 0x1000, "a"), 0);
	assert_int_equal(load_with_lines(f, 0x3000, "b"), 0);
	assert_int_equal(load_with_lines(f, 0x1100, "c"), 0);
	CHECK_AT(f, 0x1000, 0, "a"); /* names need not wait */
	xp_jit_code_bind(f->code, NULL);
	xp_jit_code_bind(f->code, &space);
	assert_string_equal(f->heard, "");

	bytes_left = f->bytes_left;
	assert_int_equal(xp_address_space_map_jit(&space, 0x1000, 0x2000, 5000), 0);
	assert_int_equal(xp_address_space_map(&space, &(struct xp_vma){ 0x1000, 0x2000, 0, &memory }), 0);
	xp_jit_code_bind(f->code, &space);
	assert_string_equal(f->heard, "load 0 a 0x1000+5 at 6000\nload 2 c 0x1100+5 at 6000\n");
	assert_true(f->bytes_left > bytes_left);
	xp_jit_code_bind(f->code, &space);
	assert_int_equal(load_with_lines(f, 0x5000, "d"), 0);
	f->heard[0] = 0;
	xp_jit_code_settle(f->code);
	assert_string_equal(f->heard, "load 1 b 0x3000+5 at 0\nload 3 d 0x5000+5 at 0\n");
	/* Memory of loads that are never reported is freed, too. */
	assert_int_equal(load_with_lines(f, 0x6000, "e"), 0);
	xp_address_space_free(&space);
}

TEST_WITH(test_name, setup, teardown)
{
	struct fixture *f = *state;
	char *name = malloc(XP_JIT_NAME_BYTES_MAX * 2);

	assert_non_null(name);
	memset(name, 'x', XP_JIT_NAME_BYTES_MAX * 2 - 1);
	name[XP_JIT_NAME_BYTES_MAX * 2 - 1] = 0;
	load(f, 1, 0x1000, 1, name);
	assert_int_equal(strlen(name_at(f, 0x1000, 1)), XP_JIT_NAME_BYTES_MAX - 1);
	free(name);
	load(f, 1, 0x2000, 1, "\033[31mred\n");
	CHECK_AT(f, 0x2000, 1, "?[31mred?");
}

TEST_WITH(test_memory, setup, teardown)
{
	struct fixture *f = *state;
	struct xp_jit_load what = { .start = 0x1000, .size = 1, .name = "a" };
	uint64_t aside = f->bytes_left - 10000;
	int err = 0;

	f->bytes_left -= aside;
	for (; !err; what.start++)
		err = xp_jit_code_load(f->code, &what, NULL);
	assert_int_equal(err, -ENOSPC);
	assert_in_range(xp_jit_code_count(f->code), 5, 100);
	assert_int_equal(xp_jit_code_refused(f->code), 1);
	/* Known code stays known, and can be found. */
	CHECK_AT(f, 0x1000, 1, "a");
	assert_int_equal(
	    xp_jit_code_load(f->code, &(struct xp_jit_load){ .start = 0x1000, .size = 1, .name = "a" }, NULL), 0);
	f->bytes_left += aside;
}

/* As much code as fits. */
static uint64_t fill(struct xp_jit_code *code)
{
	struct xp_jit_load what = { .start = 0x1000, .size = 1, .name = "a" };
	int err = 0;

	for (; !err; what.start++)
		err = xp_jit_code_load(code, &what, NULL);
	assert_int_equal(err, -ENOSPC);
	return xp_jit_code_count(code);
}

/*
 * A process that uses all memory available to it leaves as much for the others; each of those leaves as much for the
 * next.
 */
TEST_WITH(test_shared_memory, setup, teardown)
{
	const uint64_t all = 1 << 20, slack = all / 100;
	uint64_t bytes_left = all;
	struct xp_jit_code *codes[4];
	uint64_t counts[4];

	for (size_t i = 0; i < XP_ARRAY_SIZE(codes); i++) {
		assert_int_equal(xp_jit_code_new(&codes[i], &bytes_left, NULL), 0);
		counts[i] = fill(codes[i]);
		assert_in_range(bytes_left, all >> (i + 1), (all >> (i + 1)) + slack);
		assert_int_equal(xp_jit_code_refused(codes[i]), 1);
	}
	assert_in_range(counts[1], counts[0] / 2 - 2, counts[0] / 2 + 2);
	/* Freed memory is available to all processes. */
	xp_jit_code_free(codes[0]);
	assert_true(fill(codes[3]) > 2 * counts[3]);
	for (size_t i = 1; i < XP_ARRAY_SIZE(codes); i++)
		xp_jit_code_free(codes[i]);
	assert_int_equal(bytes_left, all);
}

TEST_WITH(test_many_replacements, setup, teardown)
{
	struct fixture *f = *state;
	char name[16];

	for (unsigned int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		load(f, i, 0x1000, 0x10, name);
	}
	CHECK_AT(f, 0x1000, 999, "f999");
	CHECK_AT(f, 0x1000, 800, "f800");
	CHECK_AT(f, 0x1000, 10, "-"); /* too long ago */
}

/* Finds the code at each address and time by a search through all events. */

#define MODEL_BYTES 200
#define MODEL_EVENTS 120

struct model {
	int at[MODEL_EVENTS + 1][MODEL_BYTES]; /* code + 1, after this many events */
};

static void end_code(int *at, int code)
{
	for (int i = 0; i < MODEL_BYTES; i++)
		if (at[i] == code)
			at[i] = 0;
}

static void put_code(int *at, uint64_t start, uint64_t size, int code)
{
	for (uint64_t i = start; i < start + size; i++)
		if (at[i])
			end_code(at, at[i]);
	for (uint64_t i = start; i < start + size; i++)
		at[i] = code;
}

static void model_event(struct fixture *f, int *at, uint64_t tsc, uint64_t *sizes)
{
	uint32_t count = xp_jit_code_count(f->code), index = count ? (uint32_t)rand() % count : 0;
	uint64_t start = (uint64_t)rand() % (MODEL_BYTES - 20), size = 1 + (uint64_t)rand() % 19;
	char name[16];

	switch (rand() % 4) {
	case 0:
		if (xp_jit_code_move(f->code, index, tsc, start))
			return;
		end_code(at, (int)index + 1);
		put_code(at, start, sizes[index], (int)index + 1);
		break;
	case 1:
		if (!xp_jit_code_unload(f->code, index, tsc))
			end_code(at, (int)index + 1);
		break;
	default:
		snprintf(name, sizeof(name), "f%u", count);
		assert_int_equal(load(f, tsc, start, size, name), count);
		sizes[count] = size;
		put_code(at, start, size, (int)count + 1);
	}
}

TEST(test_model)
{
	struct model *model = calloc(1, sizeof(*model));
	uint64_t sizes[MODEL_EVENTS];

	assert_non_null(model);
	for (unsigned int seed = 1; seed <= 50; seed++) {
		struct fixture f = { .bytes_left = PLENTY };

		srand(seed);
		assert_int_equal(xp_jit_code_new(&f.code, &f.bytes_left, NULL), 0);
		for (int e = 1; e <= MODEL_EVENTS; e++) {
			memcpy(model->at[e], model->at[e - 1], sizeof(model->at[e]));
			model_event(&f, model->at[e], (uint64_t)e, sizes);
		}
		for (int e = 0; e <= MODEL_EVENTS; e++)
			for (int i = 0; i < MODEL_BYTES; i++) {
				struct xp_jit_range range;
				bool found = xp_jit_code_find(f.code, (uint64_t)i, (uint64_t)e, &range);

				assert_int_equal(found ? (int)range.index + 1 : 0, model->at[e][i]);
				if (found)
					assert_in_range(i, range.start, range.start + range.size - 1);
			}
		xp_jit_code_free(f.code);
		assert_int_equal(f.bytes_left, PLENTY);
	}
	free(model);
}
