// SPDX-License-Identifier: BSD-2-Clause
#include "model/symbolize.h"

#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/interval_map.h"
#include "base/u64_map.h"
#include "base/util.h"

/* Addresses of instructions in this program, whose names the tests look up. */
struct mark {
	uint64_t id;
	int64_t distance; /* members from this one on */
};
extern const struct mark __start_test_marks[], __stop_test_marks[];

#define MARK(id) __asm__ volatile("1:\tnop\n\t.pushsection test_marks,\"a\"\n\t.quad " #id ", 1b - .\n\t.popsection")

static inline __attribute__((always_inline)) int innermost(int n)
{
	MARK(1);
	return n * 3;
}

static inline __attribute__((always_inline)) int between(int n)
{
	MARK(2);
	return innermost(n) + 1;
}
enum { BETWEEN_CALL_LINE = __LINE__ - 2 };

static __attribute__((noinline)) int outermost(int n)
{
	MARK(3);
	return between(n) + 1;
}
enum { OUTERMOST_MARK_LINE = __LINE__ - 3 };

static int take_base(struct dl_phdr_info *info, size_t size, void *base)
{
	(void)size;
	*(uint64_t *)base = info->dlpi_addr;
	return 1; /* this program is the first object */
}

static uint64_t mark_vaddr(uint64_t id)
{
	uint64_t base = 0;

	dl_iterate_phdr(take_base, &base);
	for (const struct mark *mark = __start_test_marks; mark < __stop_test_marks; mark++)
		if (mark->id == id)
			return (uint64_t)((int64_t)(uintptr_t)&mark->distance + mark->distance) - base;
	fail();
	return 0;
}

static const char *own_path(void)
{
	static char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	assert_true(length > 0);
	path[length] = 0;
	return path;
}

struct fixture {
	struct xp_symbolizer *symbolizer;
	uint32_t file;
};

static void begin(struct fixture *fixture, const char *path, enum xp_name_detail detail)
{
	assert_int_equal(xp_symbolizer_new(&fixture->symbolizer, detail), 0);
	assert_int_equal(
	    xp_symbolizer_file(fixture->symbolizer, &(struct xp_symbolizer_file){ .path = path }, &fixture->file), 0);
}

/* Requests and checks one place. */
static const struct xp_place *name_of(struct fixture *fixture, uint64_t vaddr)
{
	uint32_t place;

	assert_int_equal(xp_symbolizer_want(fixture->symbolizer, fixture->file, vaddr, &place), 0);
	assert_int_equal(xp_symbolizer_run(fixture->symbolizer), 0);
	return xp_symbolizer_place(fixture->symbolizer, place);
}

TEST(test_inlined_chain)
{
	static const char *const expected[] = { "innermost", "between", "outermost" };
	struct fixture fixture;
	volatile int two = 2; /* otherwise gcc makes a copy for 2 */

	assert_int_equal(outermost(two), 8);
	begin(&fixture, own_path(), XP_NAMES_LINES);
	for (uint32_t id = 1; id <= 3; id++) {
		const struct xp_place *place = name_of(&fixture, mark_vaddr(id));

		assert_int_equal(place->vaddr, mark_vaddr(id));
		assert_int_equal(place->frame_count, 4 - id);
		for (uint32_t i = 0; i < place->frame_count; i++) {
			assert_string_equal(place->frames[i].function, expected[i + id - 1]);
			assert_non_null(strstr(place->frames[i].file, "test_symbolize.c"));
		}
		if (id == 1)
			assert_int_equal(place->frames[1].line, BETWEEN_CALL_LINE);
		if (id == 3)
			assert_int_equal(place->frames[0].line, OUTERMOST_MARK_LINE);
	}
	xp_symbolizer_free(fixture.symbolizer);
}

TEST(test_functions_alone)
{
	struct fixture fixture;
	const struct xp_place *place;

	begin(&fixture, own_path(), XP_NAMES_FUNCTIONS);
	place = name_of(&fixture, mark_vaddr(1));
	assert_int_equal(place->frame_count, 3);
	assert_null(place->frames[0].file);
	assert_int_equal(place->frames[0].line, 0);
	xp_symbolizer_free(fixture.symbolizer);
}

TEST(test_symbol_table_alone)
{
	struct fixture fixture;
	const struct xp_place *place;

	begin(&fixture, own_path(), XP_NAMES_SYMBOLS);
	place = name_of(&fixture, mark_vaddr(1));
	assert_int_equal(place->frame_count, 1);
	assert_string_equal(place->frames[0].function, "outermost");
	xp_symbolizer_free(fixture.symbolizer);
}

TEST(test_the_same_again)
{
	struct fixture fixture;
	uint32_t file, first, second;

	begin(&fixture, own_path(), XP_NAMES_FUNCTIONS);
	assert_int_equal(
	    xp_symbolizer_file(fixture.symbolizer, &(struct xp_symbolizer_file){ .path = own_path() }, &file), 0);
	assert_int_equal(file, fixture.file);
	assert_int_equal(xp_symbolizer_want(fixture.symbolizer, file, 0x1234, &first), 0);
	assert_int_equal(xp_symbolizer_want(fixture.symbolizer, file, 0x1234, &second), 0);
	assert_int_equal(first, second);
	assert_ptr_equal(xp_symbolizer_text(fixture.symbolizer, "a\nb"), xp_symbolizer_text(fixture.symbolizer, "a?b"));
	xp_symbolizer_free(fixture.symbolizer);
}

TEST(test_no_names)
{
	static const char *const paths[] = { "[vdso]", "", "/", "/nonexistent", "/dev/zero", "/etc/passwd" };
	struct fixture fixture;

	for (size_t i = 0; i < XP_ARRAY_SIZE(paths); i++) {
		begin(&fixture, paths[i], XP_NAMES_LINES);
		assert_int_equal(xp_symbolizer_vaddr(fixture.symbolizer, fixture.file, 0x1000, 0x34), 0x1034);
		assert_int_equal(name_of(&fixture, 0x1034)->frame_count, 0);
		xp_symbolizer_free(fixture.symbolizer);
	}
	begin(&fixture, own_path(), XP_NAMES_LINES);
	assert_int_equal(name_of(&fixture, UINT64_MAX)->frame_count, 0);
	assert_int_equal(name_of(&fixture, 0)->frame_count, 0);
	xp_symbolizer_free(fixture.symbolizer);
}

/* Makes a copy of this program that the test modifies. */
static void copy_program(char path[64])
{
	char command[PATH_MAX + 128];
	int fd;

	strcpy(path, "/tmp/test_symbolize.XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	snprintf(command, sizeof(command), "cp '%s' '%s'", own_path(), path);
	assert_int_equal(system(command), 0);
}

/* The file is truncated between its two reads: both children fail. */
TEST(test_file_that_shrinks)
{
	struct fixture fixture;
	char path[64];

	copy_program(path);
	begin(&fixture, path, XP_NAMES_FUNCTIONS);
	assert_int_equal(truncate(path, 200), 0);
	assert_int_equal(name_of(&fixture, mark_vaddr(1))->frame_count, 0);
	xp_symbolizer_free(fixture.symbolizer);
	unlink(path);
}

TEST(test_another_build_id)
{
	static const uint8_t wrong[20] = { 1, 2, 3 };
	const struct xp_symbolizer_file wanted = { own_path(), wrong, sizeof(wrong), XP_FILE_ANY };
	struct fixture fixture;

	assert_int_equal(xp_symbolizer_new(&fixture.symbolizer, XP_NAMES_FUNCTIONS), 0);
	assert_int_equal(xp_symbolizer_file(fixture.symbolizer, &wanted, &fixture.file), 0);
	assert_int_equal(name_of(&fixture, mark_vaddr(1))->frame_count, 0);
	xp_symbolizer_free(fixture.symbolizer);
}

/*
 * Without a build ID, xprof cannot check that the file at a path is the recorded one; its names in the recording are
 * used.
 */
TEST(test_recorded_without_build_id)
{
	const struct xp_symbolizer_file wanted = { .path = own_path(), .want = XP_FILE_RECORDED };
	struct xp_recorded_binary binary = { .path = "/gone/then" };
	struct fixture fixture;

	assert_int_equal(xp_symbolizer_new(&fixture.symbolizer, XP_NAMES_FUNCTIONS), 0);
	assert_int_equal(xp_symbolizer_file(fixture.symbolizer, &wanted, &fixture.file), 0);
	assert_int_equal(name_of(&fixture, mark_vaddr(1))->frame_count, 0);
	binary.names = (char *)own_path();
	assert_int_equal(xp_symbolizer_binary(fixture.symbolizer, &binary, &fixture.file), 0);
	assert_int_equal(name_of(&fixture, mark_vaddr(1))->frame_count, 3);
	assert_string_equal(xp_symbolizer_real_path(fixture.symbolizer, fixture.file), "/gone/then");
	xp_symbolizer_free(fixture.symbolizer);
}

/* All files share the time limit: after it, no further file is read, and names found before are kept. */
TEST(test_time_of_all)
{
	struct fixture fixture;
	const struct xp_place *named;
	uint32_t place;
	char path[64];

	copy_program(path);
	begin(&fixture, own_path(), XP_NAMES_FUNCTIONS);
	assert_int_equal(xp_symbolizer_want(fixture.symbolizer, fixture.file, mark_vaddr(1), &place), 0);
	assert_int_equal(xp_symbolizer_run(fixture.symbolizer), 0);
	assert_int_equal(
	    xp_symbolizer_file(fixture.symbolizer, &(struct xp_symbolizer_file){ .path = path }, &fixture.file), 0);
	xp_symbolizer_limit(fixture.symbolizer, 0);
	assert_int_equal(name_of(&fixture, mark_vaddr(1))->frame_count, 0);
	named = xp_symbolizer_place(fixture.symbolizer, place);
	assert_int_equal(named->frame_count, 3);
	for (int i = 0; i < 1000; i++) {
		char other[96];

		snprintf(other, sizeof(other), "/proc/self/cwd/../../%d/%s", i, path);
		assert_int_equal(xp_symbolizer_file(fixture.symbolizer, &(struct xp_symbolizer_file){ .path = other },
						    &fixture.file),
				 0);
		assert_false(xp_symbolizer_is_readable(fixture.symbolizer, fixture.file));
	}
	xp_symbolizer_free(fixture.symbolizer);
	unlink(path);
}

/* Translates a mapping to the linked address, by the segment that contains the offset, mapped in whole pages. */
TEST(test_vaddr)
{
	struct fixture fixture;
	const ElfW(Ehdr) * header;
	const ElfW(Phdr) * segments;
	uint64_t base = 0;

	dl_iterate_phdr(take_base, &base);
	begin(&fixture, own_path(), XP_NAMES_FUNCTIONS);
	header = (const void *)(uintptr_t)base;
	segments = (const void *)((uintptr_t)base + header->e_phoff);
	for (int i = 0; i < header->e_phnum; i++) {
		uint64_t page = segments[i].p_offset & ~4095ull;

		if (segments[i].p_type != PT_LOAD || !(segments[i].p_flags & PF_X))
			continue;
		assert_int_equal(xp_symbolizer_vaddr(fixture.symbolizer, fixture.file, page, 0x123),
				 segments[i].p_vaddr - segments[i].p_offset + page + 0x123);
	}
	xp_symbolizer_free(fixture.symbolizer);
}

/* ---- the two small data structures ---- */

TEST(test_spans)
{
	static const struct {
		uint64_t address;
		int index; /* -1: none */
	} cases[] = { { 0, -1 }, { 9, -1 }, { 10, 2 }, { 19, 2 },   { 20, 0 },
		      { 29, 0 }, { 30, 4 }, { 99, 0 }, { 100, -1 }, { ~0ull, -1 } };
	struct xp_interval_map intervals = { 0 };

	assert_null(xp_interval_map_find(&intervals, 5));
	xp_interval_map_add(&intervals, (struct xp_interval){ .start = 10, .end = 100, .index = 0 });
	xp_interval_map_add(&intervals, (struct xp_interval){ .start = 10, .end = 20, .index = 1, .rank = 1 });
	xp_interval_map_add(&intervals, (struct xp_interval){ .start = 10, .end = 20, .index = 2, .rank = 2 });
	xp_interval_map_add(&intervals, (struct xp_interval){ .start = 50, .end = 50, .index = 3 });
	xp_interval_map_add(&intervals, (struct xp_interval){ .start = 30, .end = 40, .index = 4 });
	xp_interval_map_add(&intervals, (struct xp_interval){ .start = 30, .end = 40, .index = 5 });
	xp_interval_map_sort(&intervals);
	for (size_t i = 0; i < XP_ARRAY_SIZE(cases); i++) {
		const struct xp_interval *span = xp_interval_map_find(&intervals, cases[i].address);

		assert_int_equal(span ? (int)span->index : -1, cases[i].index);
	}
	xp_interval_map_free(&intervals);
}

TEST(test_number_map)
{
	struct xp_u64_map map = { 0 };

	assert_null(xp_u64_map_find(&map, 0));
	for (uint32_t i = 0; i < 10000; i++)
		assert_int_equal(*xp_u64_map_add(&map, (uint64_t)i << 40, i), i);
	assert_int_equal(*xp_u64_map_add(&map, 7ull << 40, 1), 7); /* the file exists */
	assert_int_equal(map.count, 10000);
	for (uint32_t i = 0; i < 10000; i++)
		assert_int_equal(*xp_u64_map_find(&map, (uint64_t)i << 40), i);
	assert_null(xp_u64_map_find(&map, 1));
	xp_u64_map_free(&map);
}
