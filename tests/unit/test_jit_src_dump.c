// SPDX-License-Identifier: BSD-2-Clause
/* Loads from a runtime's jitdump: while the file grows, and when it is hostile. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "format/jitdump.h"
#include "jit/src_dump.h"
#include "target/target.h"

#define PID 4711
#define NOW 100000000
#define BASE 0x7000000

struct fixture {
	int fd;
	struct xp_jitdump *writer;
	struct xp_jit_src_dump *dump;
	struct xp_jit_code *code;
	uint64_t bytes_left;
	unsigned int loads;
	char heard[4096]; /* events of the observer, one per line */
	/* of the last load */
	uint8_t code_bytes[64];
};

/* TSC = 2 * ns, exactly. */
static const struct xp_clock clock_of_test = { .hz = 2000000000,
					       .mono_hz = 2000000000,
					       .mono = { .tsc = 2000, .ns = 1000 } };

static void say(struct fixture *f, const char *format, ...)
{
	size_t used = strlen(f->heard);
	va_list args;

	va_start(args, format);
	vsnprintf(f->heard + used, sizeof(f->heard) - used, format, args);
	va_end(args);
}

static void hear_load(void *arg, uint32_t index, const struct xp_jit_load *load)
{
	struct fixture *f = arg;

	f->loads++;
	say(f, "load %u %s %#lx+%lu at %lu\n", index, load->name, (unsigned long)load->start, (unsigned long)load->size,
	    (unsigned long)load->tsc);
	for (size_t i = 0; i < load->line_count; i++)
		say(f, "%s:%u at %#lx\n", load->lines[i].file, load->lines[i].line,
		    (unsigned long)load->lines[i].address);
	if (!load->code)
		say(f, "no code\n");
	else
		memcpy(f->code_bytes, load->code, load->size < 64 ? load->size : 64);
	if (load->unwinding && load->unwinding->count)
		say(f, "unwinding of %#lx+%u\n", (unsigned long)load->unwinding->all[0].vaddr,
		    load->unwinding->all[0].bytes);
}

static void hear_move(void *arg, uint32_t index, uint64_t tsc, uint64_t old_start, uint64_t new_start, uint64_t size)
{
	say(arg, "move %u %#lx to %#lx+%lu at %lu\n", index, (unsigned long)old_start, (unsigned long)new_start,
	    (unsigned long)size, (unsigned long)tsc);
}

static void begin_file(struct fixture *f, bool arch_timestamp)
{
	const struct xp_jitdump_options options = { .pid = PID, .arch_timestamp = arch_timestamp };

	xp_jitdump_free(f->writer);
	assert_int_equal(xp_jitdump_new(&f->writer, f->fd, &options), 0);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct xp_jit_observer observer = { hear_load, hear_move, f };

	assert_non_null(f);
	f->fd = memfd_create("jitdump", 0);
	assert_true(f->fd >= 0);
	f->bytes_left = 64 << 20;
	assert_int_equal(xp_jit_code_new(&f->code, &f->bytes_left, &observer), 0);
	assert_int_equal(xp_jit_src_dump_new(&f->dump, dup(f->fd), PID), 0);
	begin_file(f, false);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	xp_jit_src_dump_free(f->dump);
	xp_jit_code_free(f->code);
	xp_jitdump_free(f->writer);
	close(f->fd);
	free(f);
	return 0;
}

static void put_load(struct fixture *f, uint64_t ns, uint64_t index, uint64_t at, const char *name)
{
	const struct xp_jitdump_load load = {
		.pid = PID,
		.tid = PID,
		.code_addr = at,
		.code_size = 128,
		.code_index = index,
		.name = name,
		.code = (const uint8_t *)"bytes of the code, of which there are so many that none is behind "
					 "them, nor before them, ever, in any of the tests in this file...."
	};

	assert_int_equal(xp_jitdump_load(f->writer, ns, &load), 0);
}

static int refresh(struct fixture *f)
{
	assert_int_equal(xp_jitdump_flush(f->writer), 0);
	return xp_jit_src_dump_refresh(f->dump, f->code, &clock_of_test, NOW);
}

/* Checks the loads that a refresh reports. */
static void expect(struct fixture *f, const char *heard)
{
	f->heard[0] = 0;
	assert_int_equal(refresh(f), 0);
	assert_string_equal(f->heard, heard);
}

TEST_WITH(test_marker, setup, teardown)
{
	assert_true(xp_jit_src_dump_is_marker("/tmp/jit-4711.dump"));
	assert_true(xp_jit_src_dump_is_marker("/jit-1.dump"));
	assert_false(xp_jit_src_dump_is_marker("/tmp/jit-.dump"));
	assert_false(xp_jit_src_dump_is_marker("/tmp/jit-4711.dump2"));
	assert_false(xp_jit_src_dump_is_marker("/tmp/jit-4711x.dump"));
	assert_false(xp_jit_src_dump_is_marker("/tmp/ajit-4711.dump"));
	assert_false(xp_jit_src_dump_is_marker("jit-4711.dump"));
	assert_false(xp_jit_src_dump_is_marker("/tmp/jit-4711.dump (deleted)"));
	assert_false(xp_jit_src_dump_is_marker(""));
}

/* Loads and moves with times of CLOCK_MONOTONIC. A second refresh reports only the new ones. */
TEST_WITH(test_grows, setup, teardown)
{
	const struct xp_jitdump_move move = { PID, PID, BASE, BASE + 0x1000, 128, 7 },
				     unknown = { PID, PID, 1, 2, 3, 99 };
	struct fixture *f = *state;

	put_load(f, 5000, 7, BASE, "hot");
	put_load(f, 6000, 8, BASE + 0x100, "co\nld");
	expect(f, "load 0 hot 0x7000000+128 at 10000\nload 1 co?ld 0x7000100+128 at 12000\n");
	assert_memory_equal(f->code_bytes, "bytes of the code", 17);
	expect(f, "");
	assert_int_equal(xp_jitdump_move(f->writer, 7000, &move), 0);
	assert_int_equal(xp_jitdump_move(f->writer, 7000, &unknown), 0);
	put_load(f, UINT64_MAX / 4, 9, BASE, "new"); /* has a later time, but is already written */
	expect(f, "move 0 0x7000000 to 0x7001000+128 at 14000\nload 2 new 0x7000000+128 at 100000000\n");
	assert_int_equal(xp_jit_src_dump_skipped(f->dump), 0);
}

TEST_WITH(test_arch_timestamp, setup, teardown)
{
	struct fixture *f = *state;

	begin_file(f, true);
	put_load(f, 5000, 7, BASE, "hot");
	expect(f, "load 0 hot 0x7000000+128 at 5000\n");
}

static void put_lines(struct fixture *f, uint64_t at, uint64_t bias)
{
	const struct xp_jitdump_line lines[] = {
		{ at + bias + 8, 20, 0, "b.js" },
		{ at + bias, 10, 0, "a.js" },
		/* the address is no longer in the code */
		{ at + bias + 127, 30, 0, "\xff" },
		{ at + bias + 128, 40, 0, "a.js" },
		{ at - 0x1000, 50, 0, "a.js" },
	};

	assert_int_equal(xp_jitdump_debug_info(f->writer, 1, at, lines, bias ? 4 : 5), 0);
}

/* Lines are ordered, inside the code, and only for the next load. */
TEST_WITH(test_lines, setup, teardown)
{
	struct fixture *f = *state;

	put_lines(f, BASE, 0);
	put_load(f, 5000, 1, BASE, "hot");
	put_load(f, 5000, 2, BASE + 0x100, "cold");
	put_lines(f, BASE + 0x200, 0);
	put_load(f, 5000, 3, BASE + 0x300, "other");
	expect(f, "load 0 hot 0x7000000+128 at 10000\na.js:10 at 0x7000000\nb.js:20 at 0x7000008\n"
		  "a.js:30 at 0x700007f\nload 1 cold 0x7000100+128 at 10000\nload 2 other 0x7000300+128 at 10000\n");
}

/* Lines of V8 and LLVM are off by 64 bytes; other runtimes have only exact lines. */
TEST_WITH(test_biased_lines, setup, teardown)
{
	struct fixture *f = *state;

	put_lines(f, BASE, 0x40);
	put_load(f, 5000, 1, BASE, "hot");
	expect(f,
	       "load 0 hot 0x7000000+128 at 10000\na.js:10 at 0x7000000\nb.js:20 at 0x7000008\na.js:30 at 0x700007f\n");
	put_lines(f, BASE + 0x100, 0);
	put_load(f, 5000, 2, BASE + 0x100, "plain");
	put_lines(f, BASE + 0x200, 0x40);
	put_load(f, 5000, 3, BASE + 0x200, "plain, too");
	expect(f,
	       "load 1 plain 0x7000100+128 at 10000\na.js:10 at 0x7000100\nb.js:20 at 0x7000108\na.js:30 at 0x700017f\n"
	       "load 2 plain, too 0x7000200+128 at 10000\na.js:10 at 0x7000240\nb.js:20 at 0x7000248\n");
}

/* A record of a runtime: .eh_frame for 128 bytes of code that is directly before it, then an .eh_frame_hdr. */
static const uint8_t unwinding[] = {
	4,  0,	  0, 0,	   88, 0, 0, 0, 1,    0,    0,	  0,	0,    0,    0,	0, 48,	 0,  0, 0, 0,	 0, 0, 0, 4,
	0,  0,	  0, 0,	   0,  0, 0, 0, 0,    0,    0,	  0,	0,    0,    0, /* prefix, sizes of the data and the
										  header, mapped */
	20, 0,	  0, 0,	   0,  0, 0, 0, 1,    'z',  'R',  0,	1,    0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1, 0, 0, /* CIE
														   */
	16, 0,	  0, 0,	   28, 0, 0, 0, 0x60, 0xff, 0xff, 0xff, 0x80, 0,    0,	0, 0,	 0,  0, 0, /* FDE */
	1,  0x1b, 3, 0x3b,
};

TEST_WITH(test_unwinding, setup, teardown)
{
	struct fixture *f = *state;

	const off_t at = 40; /* the end of the header */
	uint8_t loads[1000];
	ssize_t size;

	put_load(f, 5000, 1, BASE, "hot");
	put_load(f, 5000, 2, BASE + 0x100, "cold");
	assert_int_equal(xp_jitdump_flush(f->writer), 0);
	size = pread(f->fd, loads, sizeof(loads), at);
	assert_int_equal(pwrite(f->fd, unwinding, sizeof(unwinding), at), sizeof(unwinding));
	assert_int_equal(pwrite(f->fd, loads, (size_t)size, at + (off_t)sizeof(unwinding)), size);
	expect(f,
	       "load 0 hot 0x7000000+128 at 10000\nunwinding of 0x7000000+128\nload 1 cold 0x7000100+128 at 10000\n");
}

/* Read byte by byte, because a runtime may be interrupted anywhere. */
TEST_WITH(test_piecemeal, setup, teardown)
{
	struct fixture *f = *state;
	uint8_t bytes[1000];
	ssize_t size;

	put_lines(f, BASE, 0);
	put_load(f, 5000, 1, BASE, "hot");
	put_load(f, 6000, 2, BASE + 0x100, "cold");
	assert_int_equal(xp_jitdump_flush(f->writer), 0);
	size = pread(f->fd, bytes, sizeof(bytes), 0);
	assert_int_equal(ftruncate(f->fd, 0), 0);
	for (ssize_t i = 0; i < size; i++) {
		assert_int_equal(pwrite(f->fd, bytes + i, 1, i), 1);
		assert_int_equal(xp_jit_src_dump_refresh(f->dump, f->code, &clock_of_test, NOW), 0);
		assert_int_equal(f->loads, i == size - 1 ? 2 : i >= size - 1 - (56 + 5 + 128));
	}
	assert_non_null(strstr(f->heard, "a.js:30 at 0x700007f\nload 1 cold"));
}

/* The file of a long-running process is read in several refreshes: completely, and once. */
TEST_WITH(test_long, setup, teardown)
{
	struct fixture *f = *state;
	unsigned int refreshes = 1;

	for (unsigned int i = 0; i < 60000; i++)
		put_load(f, 5000, i, BASE + 0x100 * i, i % 3 ? "f" : "a longer name");
	while (refresh(f) == 1)
		refreshes++;
	assert_int_equal(f->loads, 60000);
	assert_in_range(refreshes, 9, 13);
	assert_int_equal(xp_jit_src_dump_skipped(f->dump), 0);
}

/* Code of up to 1 MiB has its bytes. Larger code has only its name, and its bytes are not kept in memory. */
TEST_WITH(test_large, setup, teardown)
{
	struct fixture *f = *state;
	struct xp_jitdump_load load = {
		.pid = PID, .code_addr = BASE, .code_size = 900000, .code_index = 1, .name = "large"
	};
	uint8_t *bytes = malloc(40 << 20);

	assert_non_null(bytes);
	memset(bytes, 0x90, 40 << 20);
	load.code = bytes;
	assert_int_equal(xp_jitdump_load(f->writer, 1, &load), 0);
	expect(f, "load 0 large 0x7000000+900000 at 2\n");
	load.code_size = 40 << 20;
	load.code_addr = 0x10000000;
	assert_int_equal(xp_jitdump_load(f->writer, 1, &load), 0);
	put_load(f, 1, 3, BASE + 0x100000, "behind");
	f->heard[0] = 0;
	while (refresh(f) == 1)
		;
	assert_string_equal(f->heard,
			    "load 1 large 0x10000000+41943040 at 2\nno code\nload 2 behind 0x7100000+128 at 2\n");
	free(bytes);
}

static void put_raw(struct fixture *f, uint32_t kind, uint32_t bytes, const void *body, size_t size)
{
	const uint32_t prefix[4] = { kind, bytes };
	off_t end;

	assert_int_equal(xp_jitdump_flush(f->writer), 0);
	end = lseek(f->fd, 0, SEEK_END);
	assert_int_equal(pwrite(f->fd, prefix, 16, end), 16);
	assert_int_equal(pwrite(f->fd, body, size, end + 16), (ssize_t)size);
}

static int refresh_raw(struct fixture *f)
{
	return xp_jit_src_dump_refresh(f->dump, f->code, &clock_of_test, NOW);
}

/* A malformed record with a valid frame is skipped and counted. An invalid frame ends the reading. */
TEST_WITH(test_malformed, setup, teardown)
{
	struct fixture *f = *state;
	uint8_t body[200] = { 0 };

	put_raw(f, XP_JITDUMP_LOAD, 16 + 60, memset(body, 'x', 60), 60); /* unterminated name */
	memset(body, 0, sizeof(body));
	put_raw(f, XP_JITDUMP_DEBUG_INFO, 16 + 40, memset(body, 0xff, 40), 40);
	put_raw(f, XP_JITDUMP_UNWINDING_INFO, 16 + 40, body, 40);
	memset(body, 0, sizeof(body));
	body[24] = 1;
	put_raw(f, XP_JITDUMP_DEBUG_INFO, 16 + 16 + 40, body, 56); /* one line, and 8 extra bytes */
	body[24] = 0;
	put_raw(f, 77, 16 + 100, body, 100);
	memcpy(body, (uint32_t[]){ PID, PID }, 8);
	memcpy(body + 16, (uint64_t[]){ BASE, 1, 5 }, 24);
	memcpy(body + 40, "x", 2);
	put_raw(f, XP_JITDUMP_LOAD, 16 + 43, body, 43);
	memcpy(body, (uint32_t[]){ PID + 1, PID }, 8); /* a child's */
	put_raw(f, XP_JITDUMP_LOAD, 16 + 43, body, 43);
	memcpy(body, (uint32_t[]){ PID, PID }, 8);
	memcpy(body + 16, (uint64_t[]){ UINT64_MAX, 1, 6 }, 24); /* an impossible address */
	put_raw(f, XP_JITDUMP_LOAD, 16 + 43, body, 43);
	assert_int_equal(refresh_raw(f), 0);
	assert_string_equal(f->heard, "load 0 x 0x7000000+1 at 0\n");
	assert_int_equal(xp_jit_src_dump_skipped(f->dump), 4);
	put_raw(f, 77, 15, body, 100);
	assert_int_equal(refresh_raw(f), -EBADMSG);
	assert_int_equal(refresh_raw(f), -EBADMSG);
	assert_int_equal(f->loads, 1);
}

/* A record that claims 4 GiB costs nothing; xprof waits for the claimed data. */
TEST_WITH(test_claims, setup, teardown)
{
	struct fixture *f = *state;
	struct rlimit before, limit;
	uint8_t body[100] = { 0 };

	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	limit = (struct rlimit){ 1ull << 30, before.rlim_max };
	if (getenv("ASAN_OPTIONS") == NULL)
		assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	put_raw(f, XP_JITDUMP_LOAD, UINT32_MAX, body, 100);
	for (int i = 0; i < 3; i++)
		assert_int_equal(refresh_raw(f), 0);
	assert_int_equal(f->loads, 0);
	/* then the file really has that many bytes: a hole */
	assert_int_equal(ftruncate(f->fd, (off_t)UINT32_MAX + 40), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(refresh_raw(f), 0);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_int_equal(xp_jit_src_dump_skipped(f->dump), 0); /* a load with address and size 0 */
	assert_int_equal(f->loads, 0);
}

TEST_WITH(test_no_jitdump, setup, teardown)
{
	struct fixture *f = *state;

	assert_int_equal(pwrite(f->fd, "what is this, of forty bytes or a little more?", 46, 0), 46);
	assert_int_equal(refresh_raw(f), -EBADMSG);
	assert_int_equal(ftruncate(f->fd, 0), 0);
	assert_int_equal(refresh_raw(f), -EBADMSG);
}

/* A runtime rewrites its file: known code stays unchanged. */
TEST_WITH(test_written_anew, setup, teardown)
{
	struct fixture *f = *state;

	put_load(f, 5000, 1, BASE, "hot");
	put_load(f, 5000, 2, BASE + 0x100, "cold");
	assert_int_equal(refresh(f), 0);
	assert_int_equal(ftruncate(f->fd, 0), 0);
	begin_file(f, false);
	put_load(f, 5000, 1, BASE, "hot");
	expect(f, "");
	put_load(f, 6000, 2, BASE, "hotter");
	expect(f, "load 2 hotter 0x7000000+128 at 12000\n");
}

/* Reads the file by the mapping of a process, here this one. */
TEST_WITH(test_open, setup, teardown)
{
	char dir[] = "/tmp/xprof-unit-XXXXXX", path[64];
	uint64_t start_time = xp_target_start_time(getpid());
	struct fixture *f = *state;
	struct xp_jit_src_dump *dump;
	void *marker;
	int fd;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/jit-4711.dump", dir);
	assert_int_equal(xp_jit_src_dump_open(&dump, getpid(), start_time, NULL), -ENOENT);
	assert_int_equal(xp_jit_src_dump_open(&dump, getpid(), start_time, path), -ENOENT);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	close(f->fd);
	f->fd = fd;
	begin_file(f, false);
	put_load(f, 5000, 1, BASE, "hot");
	assert_int_equal(xp_jitdump_flush(f->writer), 0);
	marker = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(marker != MAP_FAILED);
	assert_int_equal(xp_jit_src_dump_open(&dump, getpid(), start_time + 1, NULL), -ESRCH);
	assert_int_equal(xp_jit_src_dump_open(&dump, getpid(), start_time, NULL), 0);
	assert_int_equal(xp_jit_src_dump_refresh(dump, f->code, &clock_of_test, NOW), 0);
	assert_int_equal(f->loads, 1);
	xp_jit_src_dump_free(dump);
	munmap(marker, 4096);
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(xp_jit_src_dump_open(&dump, getpid(), start_time, path), 0);
	xp_jit_src_dump_free(dump);
	unlink(path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(xp_jit_src_dump_open(&dump, getpid(), start_time, path), -ELOOP);
	unlink(path);
	rmdir(dir);
}

/* Data in the buffer of the runtime's C library counts as written: byte by byte, with some flushes, and read once. */
TEST_WITH(test_held_back, setup, teardown)
{
	char dir[] = "/tmp/xprof-unit-XXXXXX", path[64];
	uint64_t start_time = xp_target_start_time(getpid());
	struct fixture *f = *state;
	struct xp_jit_src_dump *dump;
	uint8_t bytes[2000];
	FILE *stream;
	ssize_t size;

	for (unsigned int i = 0; i < 5; i++)
		put_load(f, 5000, i, BASE + 0x100 * i, "f");
	assert_int_equal(xp_jitdump_flush(f->writer), 0);
	size = pread(f->fd, bytes, sizeof(bytes), 0);
	assert_int_equal(size, 40 + 5 * (56 + 2 + 128));
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/jit-4711.dump", dir);
	stream = fopen(path, "w+");
	assert_non_null(stream);
	assert_int_equal(xp_jit_src_dump_open(&dump, getpid(), start_time, path), 0);
	for (ssize_t i = 0; i < size; i++) {
		struct stat st;

		assert_int_equal(fwrite(bytes + i, 1, 1, stream), 1);
		if (i == 17 || i == 300 || i == 301)
			fflush(stream);
		assert_int_equal(xp_jit_src_dump_refresh(dump, f->code, &clock_of_test, NOW), 0);
		assert_int_equal(f->loads, i < 40 ? 0 : (i + 1 - 40) / (56 + 2 + 128));
		assert_int_equal(fstat(fileno(stream), &st), 0);
		assert_int_equal(st.st_size, i < 17 ? 0 : i < 300 ? 18 : i < 301 ? 301 : 302);
	}
	fclose(stream);
	assert_int_equal(xp_jit_src_dump_refresh(dump, f->code, &clock_of_test, NOW), 0);
	assert_int_equal(f->loads, 5);
	xp_jit_src_dump_free(dump);
	unlink(path);
	rmdir(dir);
}

/*
 * The kernel gets a buffer before the C library updates its pointers: the buffer is read once, and so is the next one.
 */
TEST_WITH(test_just_written, setup, teardown)
{
	char dir[] = "/tmp/xprof-unit-XXXXXX", path[64];
	struct fixture *f = *state;
	struct xp_jit_src_dump *dump;
	uint8_t bytes[2000];
	FILE *stream;
	ssize_t size;

	for (unsigned int i = 0; i < 5; i++)
		put_load(f, 5000, i, BASE + 0x100 * i, "f");
	assert_int_equal(xp_jitdump_flush(f->writer), 0);
	size = pread(f->fd, bytes, sizeof(bytes), 0);
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/jit-4711.dump", dir);
	stream = fopen(path, "w+");
	assert_non_null(stream);
	assert_int_equal(xp_jit_src_dump_open(&dump, getpid(), xp_target_start_time(getpid()), path), 0);
	assert_int_equal(fwrite(bytes, 1, 300, stream), 300);
	assert_int_equal(xp_jit_src_dump_refresh(dump, f->code, &clock_of_test, NOW), 0);
	assert_int_equal(f->loads, 1);
	assert_int_equal(write(fileno(stream), bytes, 300), 300);
	assert_int_equal(xp_jit_src_dump_refresh(dump, f->code, &clock_of_test, NOW), 0);
	assert_int_equal(f->loads, 1);
	__fpurge(stream);
	assert_int_equal(fwrite(bytes + 300, 1, size - 300, stream), size - 300);
	assert_int_equal(xp_jit_src_dump_refresh(dump, f->code, &clock_of_test, NOW), 0);
	assert_int_equal(f->loads, 5);
	fclose(stream);
	xp_jit_src_dump_free(dump);
	unlink(path);
	rmdir(dir);
}
