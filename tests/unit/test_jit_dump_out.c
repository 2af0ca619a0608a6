// SPDX-License-Identifier: BSD-2-Clause
/* The jitdump of a recording: the loads of the registry, read back by the strict reader. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/file_view.h"
#include "check/formats.h"
#include "format/jitdump_reader.h"
#include "jit/dump_out.h"

#define PID 4711
#define START 1000
#define BASE 0x7000000

struct fixture {
	char dir[64];
	int dir_fd;
	uint64_t bytes_left; /* limit of all files */
	struct xp_jit_dump_out *out;
	struct xp_jit_dump_out_counts counts;
	struct xp_file_view view;
};

static void begin(struct fixture *f, unsigned int image)
{
	const struct xp_jit_dump_out_options options = { f->dir_fd, PID, image, START, &f->bytes_left };

	assert_int_equal(xp_jit_dump_out_new(&f->out, &options), 0);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->dir, "/tmp/xprof-unit-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY);
	assert_true(f->dir_fd >= 0);
	f->bytes_left = XP_JIT_DUMP_OUT_ALL_BYTES_MAX;
	begin(f, 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	if (f->view.bytes)
		xp_file_view_close(&f->view);
	if (f->out)
		unlinkat(f->dir_fd, xp_jit_dump_out_name(f->out), 0);
	unlinkat(f->dir_fd, "jit-4711.dump", 0);
	xp_jit_dump_out_free(f->out);
	close(f->dir_fd);
	rmdir(f->dir);
	free(f);
	return 0;
}

static const uint8_t code[100] = { 0x55, 0x90, 0xc3 };

static void load(struct fixture *f, uint32_t index, uint64_t tsc, const char *name, bool with_code)
{
	const struct xp_jit_load one = { .tsc = tsc,
					 .start = BASE + 0x100 * index,
					 .size = sizeof(code),
					 .name = name,
					 .code = with_code ? code : NULL };

	xp_jit_dump_out_load(f->out, index, &one);
}

/* Ends the file, which must be valid or missing. */
static void close_all(struct fixture *f, int err)
{
	struct xp_report report = { 0 };

	assert_int_equal(xp_jit_dump_out_close(f->out, 9000, &f->counts), err);
	if (!f->counts.bytes) {
		assert_int_equal(faccessat(f->dir_fd, xp_jit_dump_out_name(f->out), F_OK, 0), -1);
		xp_jit_dump_out_free(f->out);
		f->out = NULL;
		return;
	}
	assert_int_equal(xp_file_view_open(&f->view, f->dir_fd, xp_jit_dump_out_name(f->out)), 0);
	assert_int_equal(f->view.size, f->counts.bytes);
	assert_int_equal(xp_format_jitdump.check(f->view.bytes, f->view.size, &report), 0);
	if (report.finding_count)
		fail_msg("%s", report.findings[0].text);
}

static void expect(struct fixture *f, const char *text)
{
	struct xp_violation finding;
	char *printed = NULL;
	size_t size;
	FILE *out = open_memstream(&printed, &size);

	assert_int_equal(xp_format_jitdump.dump(f->view.bytes, f->view.size, out, &finding), 0);
	fclose(out);
	/* without its two header lines and the offsets */
	for (char *line = strchr(strchr(printed, '\n') + 1, '\n') + 1; *line && *text; line = strchr(line, '\n') + 1) {
		size_t length = strcspn(text, "\n");

		if (strncmp(line + 11 + strspn(line + 11, " "), text, length + 1) != 0)
			fail_msg("%s\n%s", printed, text);
		text += length + 1;
	}
	assert_string_equal(text, "");
	free(printed);
}

TEST_WITH(test_no_code, setup, teardown)
{
	struct fixture *f = *state;

	xp_jit_dump_out_move(f->out, 0, 2000, BASE, BASE + 0x1000, 10); /* a load that was never written */
	assert_int_equal(xp_jit_dump_out_close(f->out, 9000, &f->counts), 0);
	assert_int_equal(f->counts.bytes, 0);
	assert_int_equal(faccessat(f->dir_fd, xp_jit_dump_out_name(f->out), F_OK, 0), -1);
}

TEST_WITH(test_records, setup, teardown)
{
	struct fixture *f = *state;

	load(f, 0, 0, "old", true);
	load(f, 1, 500, "old, too", true);
	load(f, 2, 2000, "new", false);
	xp_jit_dump_out_move(f->out, 0, 3000, BASE, BASE + 0x1000, sizeof(code));
	close_all(f, 0);
	expect(f, "1000 header\n"
		  "1000 load 4711/4711 code 0 at 0x7000000 100 bytes old\n"
		  "1000 load 4711/4711 code 1 at 0x7000100 100 bytes old, too\n"
		  "2000 load 4711/4711 code 2 at 0x7000200 100 bytes new\n"
		  "3000 move 4711/4711 code 0 from 0x7000000 to 0x7001000 100 bytes\n"
		  "9000 close\n");
	assert_int_equal(f->counts.functions, 3);
	assert_int_equal(f->counts.functions_filled, 1);
	assert_int_equal(f->counts.functions_lost, 0);
	assert_int_equal(f->counts.moves, 1);
	assert_string_equal(xp_jit_dump_out_name(f->out), "jit-4711.dump");
	assert_memory_equal(f->view.bytes + 40 + 56 + 4, code, sizeof(code));
	for (size_t i = 0; i < sizeof(code); i++)
		assert_int_equal(f->view.bytes[40 + 60 + 100 + 65 + 100 + 60 + i], 0xcc);
}

/* Another image with the same PID has its own indices and its own file, whose number is not a valid PID. */
TEST_WITH(test_images, setup, teardown)
{
	struct fixture *f = *state;

	load(f, 0, 2000, "first", true);
	close_all(f, 0);
	xp_file_view_close(&f->view);
	xp_jit_dump_out_free(f->out);
	begin(f, 2);
	assert_string_equal(xp_jit_dump_out_name(f->out), "jit-4711000000002.dump");
	load(f, 3, 2000, "second", true);
	xp_jit_dump_out_move(f->out, 3, 3000, BASE, BASE + 0x1000, sizeof(code));
	close_all(f, 0);
	expect(f, "1000 header\n"
		  "2000 load 4711/4711 code 2097155 at 0x7000300 100 bytes second\n"
		  "3000 move 4711/4711 code 2097155 from 0x7000000 to 0x7001000 100 bytes\n"
		  "9000 close\n");
}

/* The end of the code gets a line; names are cleaned. */
TEST_WITH(test_lines, setup, teardown)
{
	static const struct xp_jit_line lines[] = { { BASE, 10, 0, "a.js" },
						    { BASE + 5, 20, 3, "b\x1b.js" },
						    { BASE + 7, 21, 0, "b\x1b.js" } };
	const struct xp_jit_load one = { .tsc = 2000,
					 .start = BASE,
					 .size = sizeof(code),
					 .name = "hot",
					 .code = code,
					 .lines = lines,
					 .line_count = 3 };
	struct fixture *f = *state;

	xp_jit_dump_out_load(f->out, 0, &one);
	close_all(f, 0);
	expect(f, "1000 header\n"
		  "2000 debug of 0x7000000, 4 lines\n"
		  "0x7000000 a.js:10\n"
		  "0x7000005 b?.js:20 (3)\n"
		  "0x7000007 b?.js:21\n"
		  "0x7000064 b?.js:21\n"
		  "2000 load 4711/4711 code 0 at 0x7000000 100 bytes hot\n"
		  "9000 close\n");
}

/* Code that is too large, and its moves, are omitted and counted. */
TEST_WITH(test_too_large, setup, teardown)
{
	struct xp_jit_load one = {
		.tsc = 2000, .start = BASE, .size = XP_JIT_DUMP_OUT_FILL_BYTES_MAX + 1, .name = "large"
	};
	struct fixture *f = *state;

	xp_jit_dump_out_load(f->out, 7, &one);
	one.size--;
	xp_jit_dump_out_load(f->out, 8, &one);
	xp_jit_dump_out_move(f->out, 7, 3000, BASE, BASE + 1, one.size);
	close_all(f, 0);
	assert_int_equal(f->counts.functions, 1);
	assert_int_equal(f->counts.functions_lost, 1);
	assert_int_equal(f->counts.moves, 0);
}

/* The limit of the file: larger code is counted, smaller code is still written. */
TEST_WITH(test_bound, setup, teardown)
{
	struct fixture *f = *state;
	const uint64_t sizes[] = { 10 << 20, XP_JIT_DUMP_OUT_BYTES_MAX - (10 << 20), sizeof(code) };
	struct xp_jit_load one = { .tsc = 2000, .start = BASE, .name = "f", .code = calloc(1, 10 << 20) };

	assert_non_null(one.code);
	for (uint32_t i = 0; i < 3; i++) {
		one.size = sizes[i];
		xp_jit_dump_out_load(f->out, i, &one);
	}
	close_all(f, 0);
	assert_int_equal(f->counts.functions, 2);
	assert_int_equal(f->counts.functions_lost, 1);
	free((void *)one.code);
}

/*
 * The limit of all files: a file leaves as much for the next file as it uses. Code without space is counted, and its
 * moves are omitted.
 */
TEST_WITH(test_bound_of_all, setup, teardown)
{
	enum { ALL = 1 << 20, SLACK = 1000, LOADS = 10000 };
	struct fixture *f = *state;
	uint64_t before;

	f->bytes_left = ALL;
	for (uint32_t i = 0; i < LOADS; i++)
		load(f, i, 2000, "f", true);
	before = f->bytes_left;
	xp_jit_dump_out_move(f->out, 0, 3000, BASE, BASE - 0x1000, sizeof(code));
	assert_in_range(before - f->bytes_left, 0, SLACK);
	close_all(f, 0);
	assert_in_range(f->counts.bytes, ALL / 2 - SLACK, ALL / 2);
	assert_int_equal(f->bytes_left, ALL - f->counts.bytes);
	assert_in_range(f->counts.functions, 1000, LOADS / 2);
	assert_int_equal(f->counts.functions_lost, LOADS - f->counts.functions);
	xp_file_view_close(&f->view);
	xp_jit_dump_out_free(f->out);
	unlinkat(f->dir_fd, "jit-4711.dump", 0);
	/* Another image starts without space, and gets space later. */
	before = f->bytes_left;
	f->bytes_left = 10;
	begin(f, 1);
	load(f, 0, 2000, "f", true);
	f->bytes_left = before;
	load(f, 1, 2000, "f", true);
	close_all(f, 0);
	assert_int_equal(f->counts.functions, 1);
	assert_int_equal(f->counts.functions_lost, 1);
	assert_int_equal(before - f->bytes_left, f->counts.bytes);
}

/* The name exists: no file is overwritten, no link is followed, and all code is counted. */
TEST_WITH(test_taken, setup, teardown)
{
	struct fixture *f = *state;
	struct stat st;

	assert_int_equal(symlinkat("elsewhere", f->dir_fd, "jit-4711.dump"), 0);
	load(f, 0, 2000, "hot", true);
	load(f, 1, 2000, "cold", true);
	xp_jit_dump_out_move(f->out, 0, 3000, BASE, BASE + 0x1000, sizeof(code));
	assert_int_equal(xp_jit_dump_out_close(f->out, 9000, &f->counts), -EEXIST);
	assert_int_equal(f->counts.functions, 0);
	assert_int_equal(f->counts.functions_lost, 2);
	assert_int_equal(f->counts.bytes, 0);
	assert_int_equal(fstatat(f->dir_fd, "elsewhere", &st, AT_SYMLINK_NOFOLLOW), -1);
}

/* At any size of the disk, the file is valid and agrees with the counts. */
TEST_WITH(test_full_disk, setup, teardown)
{
	static const struct xp_jit_line lines[] = { { BASE, 10, 0, "a.js" } };
	struct fixture *f = *state;
	struct rlimit before, limit;
	struct xp_jit_load one = { .tsc = 2000, .name = "f", .code = code, .lines = lines, .line_count = 1 };
	uint8_t *large = calloc(1, 200000);
	unsigned int files = 0;

	assert_non_null(large);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	for (rlim_t room = 10; room < 3000000; room = room * 4 / 3) {
		struct xp_violation violation;
		struct xp_jitdump_reader reader;
		struct xp_jitdump_record record;
		uint64_t loads = 0, moves = 0;

		limit = (struct rlimit){ room, before.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		for (uint32_t i = 0; i < 3000; i++) {
			one.start = BASE + 0x100000 * (uint64_t)i;
			one.code = i % 100 ? code : large;
			one.size = i % 100 ? sizeof(code) : 200000;
			xp_jit_dump_out_load(f->out, i, &one);
			if (i % 5 == 0)
				xp_jit_dump_out_move(f->out, i, 3000, one.start, 1, one.size);
		}
		close_all(f, -EFBIG);
		if (!f->counts.bytes) {
			assert_int_equal(f->counts.functions_lost, 3000);
			begin(f, 0);
			continue;
		}
		files++;
		assert_true(f->view.size <= room);
		assert_int_equal(xp_jitdump_reader_init(&reader, f->view.bytes, f->view.size, &violation), 0);
		while (xp_jitdump_reader_next(&reader, &record, &violation) == 1) {
			loads += record.kind == XP_JITDUMP_LOAD;
			moves += record.kind == XP_JITDUMP_MOVE;
		}
		assert_int_equal(f->counts.functions, loads);
		assert_int_equal(f->counts.moves, moves);
		assert_int_equal(f->counts.functions + f->counts.functions_lost, 3000);
		xp_file_view_close(&f->view);
		f->view.bytes = NULL;
		unlinkat(f->dir_fd, "jit-4711.dump", 0);
		xp_jit_dump_out_free(f->out);
		begin(f, 0);
	}
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_in_range(files, 8, 20);
	free(large);
}
