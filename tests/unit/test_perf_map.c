/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of a perf map, and the reader of a growing one. The target is this process. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

#include "base/util.h"
#include "jit/perf_map.h"
#include "jit/src_map.h"
#include "target/status.h"
#include "target/target.h"

TEST(test_lines)
{
	static const struct {
		const char *line;
		uint64_t start;
		uint64_t size;
		const char *name; /* NULL: no entry */
	} lines[] = {
		{ "7fb91a7c6040 180 JS:*fib /tmp/j.js:1:13", 0x7fb91a7c6040, 0x180, "JS:*fib /tmp/j.js:1:13" },
		{ "0x00007F51 0x000e0 StubRoutines (1)", 0x7f51, 0xe0, "StubRoutines (1)" },
		{ " \t1000\t2   a", 0x1000, 2, "a" },
		{ "ffffffffffffffff 0 a", UINT64_MAX, 0, "a" },
		{ "1ffffffffffffffff 1 a", 0, 0, NULL },
		{ "1000 1", 0, 0, NULL },
		{ "1000 1 ", 0, 0, NULL },
		{ "1000 1x a", 0, 0, NULL },
		{ "1000", 0, 0, NULL },
		{ "-1 1 a", 0, 0, NULL },
		{ "0x 1 a", 0, 0, NULL },
		{ "g 1 a", 0, 0, NULL },
		{ "", 0, 0, NULL },
	};

	for (size_t i = 0; i < XP_ARRAY_SIZE(lines); i++) {
		struct xp_perf_map_entry entry;

		assert_int_equal(xp_perf_map_parse(&entry, lines[i].line), lines[i].name != NULL);
		if (!lines[i].name)
			continue;
		assert_int_equal(entry.start, lines[i].start);
		assert_int_equal(entry.size, lines[i].size);
		assert_string_equal(entry.name, lines[i].name);
	}
}

static int note(void *arg, const struct xp_perf_map_entry *entry)
{
	char *noted = arg;
	size_t used = strlen(noted);

	snprintf(noted + used, 256 - used, "%lx+%lx=%.20s;", (unsigned long)entry->start, (unsigned long)entry->size,
		 entry->name);
	return !strcmp(entry->name, "stop") ? 7 : 0;
}

TEST(test_pieces)
{
	static const char text[] = "1000 10 one\nrubbish\n2000 20 two words\n\n3000 30 unfinished";
	static const char whole[] = "1000+10=one;2000+20=two words;";

	for (size_t cut = 0; cut <= strlen(text); cut++) {
		struct xp_perf_map map = { 0 };
		char noted[256] = "";

		assert_int_equal(xp_perf_map_feed(&map, text, cut, note, noted), 0);
		assert_int_equal(xp_perf_map_feed(&map, text + cut, strlen(text) - cut, note, noted), 0);
		assert_string_equal(noted, whole);
		assert_int_equal(xp_perf_map_feed(&map, "\n", 1, note, noted), 0);
		assert_string_equal(noted, "1000+10=one;2000+20=two words;3000+30=unfinished;");
	}
}

TEST(test_stopped)
{
	static const char text[] = "1 1 a\n2 1 stop\n3 1 b\n";
	struct xp_perf_map map = { 0 };
	char noted[256] = "";

	assert_int_equal(xp_perf_map_feed(&map, text, strlen(text), note, noted), 7);
	assert_string_equal(noted, "1+1=a;2+1=stop;");
}

/* A line without an end uses no more memory than any other. The next line is read. */
TEST(test_endless_line)
{
	struct xp_perf_map map = { 0 };
	char noted[256] = "", blanks[1000];

	memset(blanks, 'x', sizeof(blanks));
	assert_int_equal(xp_perf_map_feed(&map, "1000 10 ", 8, note, noted), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(xp_perf_map_feed(&map, blanks, sizeof(blanks), note, noted), 0);
	assert_int_equal(xp_perf_map_feed(&map, "\n2 1 next\n", 10, note, noted), 0);
	assert_string_equal(noted, "1000+10=xxxxxxxxxxxxxxxxxxxx;2+1=next;");
}

/* ---- the source ---- */

struct fixture {
	char path[64];
	FILE *file;
	struct xp_jit_src_map *map;
	struct xp_jit_code *code;
	uint64_t bytes_left;
	struct xp_jit_bytes bytes;
	uint8_t seen[16]; /* code bytes of the last load */
};

static void hear_load(void *arg, uint32_t index, const struct xp_jit_load *load)
{
	struct fixture *f = arg;

	(void)index;
	memset(f->seen, 0, sizeof(f->seen));
	if (load->code)
		memcpy(f->seen, load->code, XP_MIN(load->size, sizeof(f->seen)));
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct xp_jit_observer observer = { .load = hear_load, .arg = f };
	struct xp_target_status status;

	assert_non_null(f);
	f->bytes_left = 256 << 20;
	f->bytes = (struct xp_jit_bytes){ .pid = getpid(), .left = 100000 };
	assert_int_equal(xp_target_status(&status, getpid(), xp_target_start_time(getpid())), 0);
	snprintf(f->path, sizeof(f->path), "/tmp/perf-%d.map", status.inner_pid);
	unlink(f->path);
	f->file = fopen(f->path, "we");
	assert_non_null(f->file);
	setbuf(f->file, NULL);
	assert_int_equal(xp_jit_src_map_open(&f->map, getpid(), xp_target_start_time(getpid())), 0);
	assert_int_equal(xp_jit_code_new(&f->code, &f->bytes_left, &observer), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	xp_jit_src_map_free(f->map);
	xp_jit_bytes_free(&f->bytes);
	xp_jit_code_free(f->code);
	fclose(f->file);
	unlink(f->path);
	free(f);
	return 0;
}

static void refresh(struct fixture *f, uint64_t tsc)
{
	assert_int_equal(xp_jit_src_map_refresh(f->map, f->code, &f->bytes, tsc), 0);
}

static const char *name_at(struct fixture *f, uint64_t address, uint64_t tsc)
{
	struct xp_jit_range range;

	return xp_jit_code_find(f->code, address, tsc, &range) ? range.name : "-";
}

TEST_WITH(test_grows, setup, teardown)
{
	struct fixture *f = *state;

	refresh(f, 100);
	fputs("1000 10 a\n2000 10 b", f->file);
	refresh(f, 200);
	assert_string_equal(name_at(f, 0x1000, 1), "a");
	assert_string_equal(name_at(f, 0x2000, 1), "-");
	fputs("c\n1000 20 d\n", f->file);
	refresh(f, 300);
	assert_string_equal(name_at(f, 0x2000, 1), "bc");
	/* d replaced a after the second check, at an unknown time, so d counts from that check. */
	assert_string_equal(name_at(f, 0x1000, 199), "a");
	assert_string_equal(name_at(f, 0x1000, 200), "d");
	assert_int_equal(xp_jit_code_count(f->code), 3);
}

TEST_WITH(test_written_anew, setup, teardown)
{
	struct fixture *f = *state;

	fputs("1000 10 a\n2000 10 b\n", f->file);
	refresh(f, 100);
	/* The file becomes shorter, stays the same, and becomes longer. */
	static const char *const texts[] = { "2000 10 b\n", "1000 10 a\n2000 10 b\n",
					     "5000 10 e\n1000 10 a\n2000 10 b\n3000 10 c\n" };
	for (size_t i = 0; i < XP_ARRAY_SIZE(texts); i++) {
		assert_int_equal(ftruncate(fileno(f->file), 0), 0);
		rewind(f->file);
		fputs(texts[i], f->file);
		refresh(f, 200 + i);
	}
	assert_string_equal(name_at(f, 0x3000, 1000), "c");
	assert_string_equal(name_at(f, 0x5000, 1000), "e");
	assert_int_equal(xp_jit_code_count(f->code), 4); /* each function once */
}

TEST_WITH(test_replaced, setup, teardown)
{
	struct fixture *f = *state;
	char path[80];

	fputs("1000 10 a\n", f->file);
	refresh(f, 100);
	fclose(f->file);
	snprintf(path, sizeof(path), "%s.new", f->path);
	f->file = fopen(path, "we");
	setbuf(f->file, NULL);
	fputs("2000 10 b\n3000 10 c\n", f->file);
	assert_int_equal(rename(path, f->path), 0);
	refresh(f, 200);
	assert_string_equal(name_at(f, 0x1000, 300), "a");
	assert_string_equal(name_at(f, 0x2000, 300), "b");
	/* The file is deleted and replaced by a link: the open file is still read. */
	fputs("4000 10 d\n", f->file);
	unlink(f->path);
	assert_int_equal(symlink("/etc/passwd", f->path), 0);
	refresh(f, 300);
	assert_string_equal(name_at(f, 0x4000, 300), "d");
}

TEST_WITH(test_code, setup, teardown)
{
	struct fixture *f = *state;
	uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(page, MAP_FAILED);
	memcpy(page, "\x90\x90\xc3", 3);
	fprintf(f->file, "%lx 3 a\n", (unsigned long)page);
	refresh(f, 100);
	assert_memory_equal(f->seen, "\x90\x90\xc3\0", 4);
	/* Code that reaches into unmapped memory has a name, but no bytes. */
	fprintf(f->file, "%lx 2000 b\n", (unsigned long)page + 16);
	munmap(page, 4096);
	refresh(f, 200);
	assert_memory_equal(f->seen, "\0\0\0\0", 4);
	assert_int_equal(xp_jit_code_count(f->code), 2);
	assert_int_equal(f->bytes.left, 100000 - 3 - 0x2000);
}

/* Adjacent functions are read together, and have the right bytes. */
TEST_WITH(test_code_of_many, setup, teardown)
{
	struct fixture *f = *state;
	uint8_t *pages = mmap(NULL, 0x12000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(munmap(pages + 0x11000, 0x1000), 0);
	for (size_t i = 0; i < 0x11000; i++)
		pages[i] = (uint8_t)(i >> 4);
	refresh(f, 100);
	for (size_t at = 0; at < 0x11000; at += 0x10) {
		uint8_t expected[16];

		/* One of the last functions extends beyond the end. */
		fprintf(f->file, "%lx %x f%zx\n", (unsigned long)pages + at, at == 0x10fe0 ? 0x80 : 0x10, at);
		if (at % 0x100 && at < 0x10f00)
			continue;
		xp_jit_bytes_begin(&f->bytes, 100000);
		refresh(f, 200 + at);
		memset(expected, at == 0x10fe0 ? 0 : (uint8_t)(at >> 4), sizeof(expected));
		assert_memory_equal(f->seen, expected, sizeof(expected));
	}
	munmap(pages, 0x11000);
}

TEST_WITH(test_long, setup, teardown)
{
	struct fixture *f = *state;
	unsigned int looks = 0, lines = 200000;
	int more = 1;

	setvbuf(f->file, NULL, _IOFBF, 65536);
	for (unsigned int i = 0; i < lines; i++)
		fprintf(f->file, "%x 10 function_with_a_long_name_%x\n", 0x100000 + i * 16, i);
	fflush(f->file);
	for (; more == 1; looks++)
		more = xp_jit_src_map_refresh(f->map, f->code, NULL, 100 + looks);
	assert_int_equal(more, 0);
	assert_in_range(looks, 16, 20);
	assert_int_equal(xp_jit_code_count(f->code), lines);
	assert_string_equal(name_at(f, 0x100000 + (lines - 1) * 16, 1), "function_with_a_long_name_30d3f");
}

TEST(test_none)
{
	struct xp_jit_src_map *map;
	uint64_t start_time = xp_target_start_time(getpid());

	assert_int_equal(xp_jit_src_map_open(&map, getpid(), start_time), -ENOENT);
	assert_int_equal(xp_jit_src_map_open(&map, getpid(), start_time + 1), -ESRCH);
}
