/* SPDX-License-Identifier: BSD-2-Clause */
/* The file of a mapping, after any change of the mapping. The target is this process. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/util.h"
#include "target/target.h"

#define PAGES 8

struct world {
	struct xp_mapping mapping; /* of a deleted file */
	size_t page;
};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	char path[] = "/tmp/xprof-unit-XXXXXX";
	int fd = mkstemp(path);
	struct stat st;
	void *map;

	world->page = sysconf(_SC_PAGESIZE);
	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ftruncate(fd, PAGES * world->page), 0);
	assert_int_equal(fstat(fd, &st), 0);
	map = mmap(NULL, PAGES * world->page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		world->mapping = (struct xp_mapping){ .start = (uintptr_t)map,
						      .end = (uintptr_t)map + PAGES * world->page,
						      .inode = st.st_ino };
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	if (world->mapping.start)
		munmap((void *)(uintptr_t)world->mapping.start, PAGES * world->page);
	free(world);
	return 0;
}

/* Returns the inode of the descriptor's file, or 0 if the descriptor is invalid. */
static uint64_t inode_of(int fd)
{
	struct stat st;

	if (fd < 0)
		return 0;
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	return st.st_ino;
}

static void skip_where_it_cannot_be(const struct world *world)
{
	if (!world->mapping.start || !inode_of(xp_mapping_open(getpid(), &world->mapping))) {
		print_message("skipped: /proc/PID/map_files is for root, and /tmp must allow to execute\n");
		skip();
	}
}

/*
 * Code that a program has moved to memory without a file has the name of the file around it. Other code without a file
 * has no name.
 */
TEST(test_moved_text)
{
	static const char text[] = "400000-401000 r--p 00000000 08:01 7 /app\n"
				   "401000-403000 r-xp 00000000 00:00 0 \n"
				   "403000-404000 r-xp 00003000 08:01 7 /app\n"
				   "404000-405000 r-xp 00000000 00:0f 9 /anon_hugepage (deleted)\n"
				   "405000-406000 r--p 00005000 08:01 7 /app\n"
				   "406000-407000 r-xp 00000000 00:00 0 \n" /* the next one has another offset */
				   "407000-408000 rw-p 00006000 08:01 7 /app\n"
				   "408000-409000 r-xp 00000000 00:00 0 \n" /* the next one is another file */
				   "409000-40a000 r--p 00008000 08:01 8 /app\n"
				   "40a000-40b000 r-xp 00000000 00:00 0 \n"; /* the last one */
	static const struct {
		uint64_t start, file_offset;
		bool moved;
	} expected[] = { { 0x401000, 0x1000, true }, { 0x403000, 0x3000, false }, { 0x404000, 0x4000, true },
			 { 0x406000, 0, false },     { 0x408000, 0, false },	  { 0x40a000, 0, false } };
	struct xp_mappings mappings;
	char *copy = strdup(text);

	assert_int_equal(xp_mappings_parse(&mappings, copy, true), 0);
	assert_int_equal(mappings.count, 6);
	for (size_t i = 0; i < 6; i++) {
		const struct xp_mapping *mapping = &mappings.list[i];

		assert_int_equal(mapping->start, expected[i].start);
		assert_int_equal(mapping->file_offset, expected[i].file_offset);
		assert_int_equal(mapping->moved, expected[i].moved);
		assert_int_equal(mapping->inode, i < 3 ? 7 : 0);
		assert_string_equal(mapping->path, i < 3 ? "/app" : "");
	}
	xp_mappings_free(&mappings);
	strcpy(copy, text);
	assert_int_equal(xp_mappings_parse(&mappings, copy, false), 0);
	free(copy);
	assert_int_equal(mappings.count, 2); /* those with an inode and a path */
	xp_mappings_free(&mappings);
}

TEST(test_first_mapping_of_a_file)
{
	char text[] = "401000-402000 r-xp 00001000 08:01 7 /app\n"
		      "402000-403000 r-xp 00000000 00:00 0 \n"
		      "403000-404000 r-xp 00001000 08:01 8 /lib\n"
		      "404000-405000 r-xp 00003000 08:01 7 /app\n"
		      "405000-406000 r-xp 00000000 00:00 0 \n"
		      "406000-407000 r-xp 00001000 08:02 8 /lib\n" /* on another device */
		      "407000-408000 r-xp 00003000 08:01 8 /lib\n";
	static const size_t expected[] = { 0, 1, 2, 0, 4, 5, 2 };
	struct xp_mappings mappings;

	assert_int_equal(xp_mappings_parse(&mappings, text, true), 0);
	assert_int_equal(mappings.count, XP_ARRAY_SIZE(expected));
	for (size_t i = 0; i < mappings.count; i++)
		assert_int_equal(mappings.list[i].first, expected[i]);
	xp_mappings_free(&mappings);
}

TEST_WITH(test_split, setup, teardown)
{
	struct world *world = *state;
	struct xp_mapping other = world->mapping;

	skip_where_it_cannot_be(world);
	assert_int_equal(mprotect((char *)(uintptr_t)world->mapping.start + 2 * world->page, world->page, PROT_READ),
			 0);
	assert_int_equal(inode_of(xp_mapping_open(getpid(), &world->mapping)), world->mapping.inode);
	/* Without its inode number, the file is unknown, and no other file is accepted. */
	other.inode = 0;
	assert_int_equal(xp_mapping_open(getpid(), &other), -ENOENT);
	other.inode = world->mapping.inode + 1000000;
	assert_int_equal(xp_mapping_open(getpid(), &other), -ENOENT);
}

TEST_WITH(test_unmapped, setup, teardown)
{
	struct world *world = *state;

	skip_where_it_cannot_be(world);
	assert_int_equal(munmap((void *)(uintptr_t)world->mapping.start, PAGES * world->page), 0);
	assert_int_equal(xp_mapping_open(getpid(), &world->mapping), -ENOENT);
}
