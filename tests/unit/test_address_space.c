/* SPDX-License-Identifier: BSD-2-Clause */
/* Address spaces and interned files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/util.h"
#include "target/address_space.h"

static struct xp_file lib = { .kind = XP_FILE_DISK, .path = "/lib/a.so" };
static struct xp_file other = { .kind = XP_FILE_DISK, .path = "/lib/b.so" };
static struct xp_file anon = { .kind = XP_FILE_ANON, .path = "//anon" };
static struct xp_file vdso = { .kind = XP_FILE_VDSO, .path = "[vdso]" };

static int map(struct xp_address_space *space, uint64_t start, uint64_t end, uint64_t offset, struct xp_file *file)
{
	struct xp_vma vma = { start, end, offset, file };

	return xp_address_space_map(space, &vma);
}

static void check(const struct xp_address_space *space, const struct xp_vma *expected, size_t count)
{
	assert_int_equal(space->count, count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(space->vmas[i].start, expected[i].start);
		assert_int_equal(space->vmas[i].end, expected[i].end);
		assert_int_equal(space->vmas[i].file_offset, expected[i].file_offset);
		assert_ptr_equal(space->vmas[i].file, expected[i].file);
	}
}
#define CHECK(space, ...)                                                                                              \
	do {                                                                                                           \
		static const struct xp_vma expected_[] = { __VA_ARGS__ };                                              \
		check(space, expected_, XP_ARRAY_SIZE(expected_));                                                     \
	} while (0)

TEST(test_find)
{
	struct xp_address_space space = { 0 };

	assert_null(xp_address_space_find(&space, 0x1000));
	assert_int_equal(map(&space, 0x5000, 0x7000, 0, &lib), 0);
	assert_int_equal(map(&space, 0x1000, 0x2000, 0, &lib), 0);
	assert_int_equal(map(&space, 0x3000, 0x4000, 0, &other), 0);
	CHECK(&space, { 0x1000, 0x2000, 0, &lib }, { 0x3000, 0x4000, 0, &other }, { 0x5000, 0x7000, 0, &lib });
	assert_null(xp_address_space_find(&space, 0xfff));
	assert_ptr_equal(xp_address_space_find(&space, 0x1000), &space.vmas[0]);
	assert_ptr_equal(xp_address_space_find(&space, 0x1fff), &space.vmas[0]);
	assert_null(xp_address_space_find(&space, 0x2000));
	assert_ptr_equal(xp_address_space_find(&space, 0x3fff), &space.vmas[1]);
	assert_null(xp_address_space_find(&space, 0x4fff));
	assert_ptr_equal(xp_address_space_find(&space, 0x6fff), &space.vmas[2]);
	assert_null(xp_address_space_find(&space, 0x7000));
	assert_null(xp_address_space_find(&space, UINT64_MAX));
	xp_address_space_free(&space);
}

TEST(test_cut)
{
	struct xp_address_space space = { 0 };

	map(&space, 0x1000, 0x4000, 0x100000, &lib);
	map(&space, 0x6000, 0x9000, 0x200000, &lib);
	assert_int_equal(map(&space, 0x3000, 0x7000, 0, &other), 0);
	CHECK(&space, { 0x1000, 0x3000, 0x100000, &lib }, { 0x3000, 0x7000, 0, &other },
	      { 0x7000, 0x9000, 0x201000, &lib });
	xp_address_space_free(&space);
}

TEST(test_split)
{
	struct xp_address_space space = { 0 };

	map(&space, 0x1000, 0x9000, 0x100000, &lib);
	assert_int_equal(map(&space, 0x3000, 0x4000, 0, &other), 0);
	CHECK(&space, { 0x1000, 0x3000, 0x100000, &lib }, { 0x3000, 0x4000, 0, &other },
	      { 0x4000, 0x9000, 0x103000, &lib });
	xp_address_space_free(&space);
}

TEST(test_replace)
{
	struct xp_address_space space = { 0 };

	map(&space, 0x1000, 0x2000, 0, &lib);
	map(&space, 0x3000, 0x4000, 0, &lib);
	map(&space, 0x5000, 0x6000, 0, &lib);
	map(&space, 0x8000, 0x9000, 0, &lib);
	assert_int_equal(map(&space, 0x1000, 0x6000, 0x7000, &other), 0);
	CHECK(&space, { 0x1000, 0x6000, 0x7000, &other }, { 0x8000, 0x9000, 0, &lib });
	/* Again, exactly the same range. */
	assert_int_equal(map(&space, 0x1000, 0x6000, 0, &lib), 0);
	CHECK(&space, { 0x1000, 0x6000, 0, &lib }, { 0x8000, 0x9000, 0, &lib });
	xp_address_space_free(&space);
}

TEST(test_join)
{
	struct xp_address_space space = { 0 };

	map(&space, 0x1000, 0x2000, 0x10000, &lib);
	map(&space, 0x3000, 0x4000, 0x12000, &lib);
	assert_int_equal(map(&space, 0x2000, 0x3000, 0x11000, &lib), 0);
	CHECK(&space, { 0x1000, 0x4000, 0x10000, &lib });
	/* The same range again, and a part of it, as after mprotect(2). */
	assert_int_equal(map(&space, 0x1000, 0x4000, 0x10000, &lib), 0);
	assert_int_equal(map(&space, 0x2000, 0x3000, 0x11000, &lib), 0);
	CHECK(&space, { 0x1000, 0x4000, 0x10000, &lib });
	/* Another offset of the file does not continue the mapping. */
	assert_int_equal(map(&space, 0x4000, 0x5000, 0x10000, &lib), 0);
	CHECK(&space, { 0x1000, 0x4000, 0x10000, &lib }, { 0x4000, 0x5000, 0x10000, &lib });
	xp_address_space_clear(&space);
	/* Anonymous memory has no offsets. */
	map(&space, 0x1000, 0x2000, 0, &anon);
	map(&space, 0x2000, 0x3000, 0x77, &anon);
	CHECK(&space, { 0x1000, 0x3000, 0, &anon });
	map(&space, 0x3000, 0x5000, 0, &vdso);
	map(&space, 0x5000, 0x7000, 0x2000, &vdso);
	CHECK(&space, { 0x1000, 0x3000, 0, &anon }, { 0x3000, 0x5000, 0, &vdso }, { 0x5000, 0x7000, 0x2000, &vdso });
	xp_address_space_free(&space);
}

/* A side-band record may contain any values. */
TEST(test_bad)
{
	struct xp_address_space space = { 0 };

	assert_int_equal(map(&space, 0x1000, 0x1000, 0, &lib), -EINVAL);
	assert_int_equal(map(&space, 0x2000, 0x1000, 0, &lib), -EINVAL);
	assert_int_equal(map(&space, 0, UINT64_MAX, UINT64_MAX - 5, &lib), 0);
	assert_int_equal(map(&space, 0x1000, 0x2000, 0, &other), 0);
	CHECK(&space, { 0, 0x1000, UINT64_MAX - 5, &lib }, { 0x1000, 0x2000, 0, &other },
	      { 0x2000, UINT64_MAX, 0x2000 - 6, &lib });
	xp_address_space_free(&space);
}

TEST(test_clear)
{
	struct xp_address_space space = { 0 };

	map(&space, 0x1000, 0x2000, 0, &lib);
	xp_address_space_clear(&space);
	assert_int_equal(space.count, 0);
	assert_null(xp_address_space_find(&space, 0x1000));
	xp_address_space_free(&space);
}

/* Changes by one holder are invisible to the others. A single holder changes the space in place. */
TEST(test_share)
{
	struct xp_address_space *parent = xp_address_space_new(), *child, *sample;

	assert_non_null(parent);
	map(parent, 0x1000, 0x2000, 0, &lib);
	map(parent, 0x3000, 0x4000, 0, &other);
	child = xp_address_space_share(parent);
	sample = xp_address_space_share(parent);
	assert_int_equal(xp_address_space_own(&parent), 0);
	assert_ptr_not_equal(parent, child);
	map(parent, 0x1000, 0x4000, 0, &anon);
	CHECK(parent, { 0x1000, 0x4000, 0, &anon });
	CHECK(sample, { 0x1000, 0x2000, 0, &lib }, { 0x3000, 0x4000, 0, &other });
	xp_address_space_release(child);
	child = sample;
	assert_int_equal(xp_address_space_own(&child), 0);
	assert_ptr_equal(child, sample);
	map(child, 0x5000, 0x6000, 0, &lib);
	CHECK(parent, { 0x1000, 0x4000, 0, &anon });
	xp_address_space_release(child);
	xp_address_space_release(parent);
	xp_address_space_release(NULL);

	/* An empty space. */
	parent = xp_address_space_new();
	assert_non_null(parent);
	child = xp_address_space_share(parent);
	assert_int_equal(xp_address_space_own(&child), 0);
	assert_int_equal(child->count, 0);
	xp_address_space_release(child);
	xp_address_space_release(parent);
}

TEST(test_limit)
{
	struct xp_address_space space = { 0 };

	for (uint64_t i = 0; i < XP_SPACE_VMAS_MAX; i++)
		assert_int_equal(map(&space, i * 0x4000, i * 0x4000 + 0x3000, 0, &lib), 0);
	assert_int_equal(space.count, XP_SPACE_VMAS_MAX);
	assert_int_equal(map(&space, 0x3000, 0x4000, 0, &other), -E2BIG);
	assert_int_equal(map(&space, 0x1000, 0x2000, 0, &other), -E2BIG);
	assert_int_equal(space.count, XP_SPACE_VMAS_MAX);
	assert_ptr_equal(xp_address_space_find(&space, 0x1000)->file, &lib);
	/* A change that needs no further memory still works. */
	assert_int_equal(map(&space, 0, 0x3000, 0, &other), 0);
	assert_int_equal(map(&space, 0x4000, 0x10000, 0, &other), 0);
	assert_int_equal(space.count, XP_SPACE_VMAS_MAX - 2);
	xp_address_space_free(&space);
}

/* Compares with an array of pages. */
TEST(test_random)
{
	enum { PAGES = 64, FILES = 3 };
	struct xp_file *const files[FILES] = { &lib, &other, &anon };
	struct xp_file *owner[PAGES] = { 0 };
	uint64_t offset[PAGES] = { 0 };
	struct xp_address_space space = { 0 };
	unsigned int seed = 1;

	for (int round = 0; round < 20000; round++) {
		uint64_t first = rand_r(&seed) % PAGES, last = first + 1 + rand_r(&seed) % (PAGES - first);
		uint64_t from = rand_r(&seed) % 8;
		struct xp_file *file = files[rand_r(&seed) % FILES];

		assert_int_equal(map(&space, first << 12, last << 12, from << 12, file), 0);
		for (uint64_t page = first; page < last; page++) {
			owner[page] = file;
			offset[page] = from + page - first;
		}
		for (uint64_t page = 0; page < PAGES; page++) {
			const struct xp_vma *vma = xp_address_space_find(&space, page << 12 | 0x123);

			assert_ptr_equal(vma ? vma->file : NULL, owner[page]);
			if (vma && vma->file != &anon)
				assert_int_equal(vma->file_offset + (page << 12) - vma->start, offset[page] << 12);
		}
		for (size_t i = 1; i < space.count; i++)
			assert_true(space.vmas[i - 1].end <= space.vmas[i].start);
	}
	xp_address_space_free(&space);
}

TEST(test_files)
{
	struct xp_file one = { .kind = XP_FILE_DISK, .dev = 1, .inode = 7, .path = "/bin/x", .index = 99 };
	struct xp_file *file, *same, *replaced;
	struct xp_files files = { 0 };

	file = xp_files_intern(&files, &one);
	assert_int_equal(file->index, 0);
	assert_ptr_not_equal(file->path, one.path);
	assert_ptr_equal(xp_files_intern(&files, &one), file);
	/* The build ID becomes known, and then changes: the file was rewritten in place. */
	one.build_id_bytes = 20;
	one.build_id[3] = 5;
	assert_ptr_equal(xp_files_intern(&files, &one), file);
	assert_int_equal(file->build_id_bytes, 20);
	assert_int_equal(file->build_id[3], 5);
	one.build_id[3] = 6;
	replaced = xp_files_intern(&files, &one);
	assert_ptr_not_equal(replaced, file);
	assert_int_equal(replaced->index, 1);
	one.build_id_bytes = 0;
	assert_ptr_equal(xp_files_intern(&files, &one), replaced);
	one.inode = 8;
	same = xp_files_intern(&files, &one);
	assert_int_equal(same->index, 2);
	one.path = "/bin/y";
	assert_int_equal(xp_files_intern(&files, &one)->index, 3);
	one.dev = 2;
	assert_int_equal(xp_files_intern(&files, &one)->index, 4);
	one.kind = XP_FILE_ANON;
	assert_int_equal(xp_files_intern(&files, &one)->index, 5);
	assert_int_equal(files.count, 6);
	xp_files_free(&files);
	assert_int_equal(files.count, 0);
}

TEST(test_many_files)
{
	struct xp_files files = { 0 };
	char path[32];

	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < 5000; i++) {
			struct xp_file file = { .kind = XP_FILE_DISK, .inode = i % 10, .path = path };

			snprintf(path, sizeof(path), "/lib/%d.so", i);
			assert_int_equal(xp_files_intern(&files, &file)->index, i);
		}
	assert_int_equal(files.count, 5000);
	for (int i = 0; i < 5000; i++) {
		snprintf(path, sizeof(path), "/lib/%d.so", i);
		assert_string_equal(files.all[i]->path, path);
	}
	xp_files_free(&files);
}

static int map_jit(struct xp_address_space *space, uint64_t start, uint64_t end, uint64_t tsc)
{
	int err = xp_address_space_map_jit(space, start, end, tsc);

	return err ? err : map(space, start, end, 0, &anon);
}

/* JIT compilers map, grow and protect memory repeatedly. The start of the memory is the time of its first mapping. */
TEST(test_jit)
{
	struct xp_address_space *space = xp_address_space_new(), *kept;

	assert_non_null(space);
	assert_int_equal(map(space, 0x1000, 0x2000, 0, &anon), 0); /* start unknown */
	assert_int_equal(map(space, 0x3000, 0x4000, 0, &lib), 0);
	assert_int_equal(map_jit(space, 0x1800, 0x6000, 10), 0);
	assert_int_equal(xp_address_space_jit_since(space, 0x17ff), 0);
	assert_int_equal(xp_address_space_jit_since(space, 0x1800), 0);
	assert_int_equal(xp_address_space_jit_since(space, 0x2000), 10);
	assert_int_equal(xp_address_space_jit_since(space, 0x3000), 10); /* replaces the library */
	assert_int_equal(xp_address_space_jit_since(space, 0x5fff), 10);
	assert_int_equal(xp_address_space_jit_since(space, 0x6000), 0);
	assert_int_equal(map_jit(space, 0x2000, 0x3000, 20), 0);
	assert_int_equal(map_jit(space, 0x5000, 0x7000, 20), 0);
	assert_int_equal(xp_address_space_jit_since(space, 0x2000), 10);
	assert_int_equal(xp_address_space_jit_since(space, 0x5000), 10);
	assert_int_equal(xp_address_space_jit_since(space, 0x6000), 20);
	assert_int_equal(map(space, 0x5000, 0x6000, 0, &lib), 0);
	assert_int_equal(map_jit(space, 0x5000, 0x6000, 30), 0);
	assert_int_equal(xp_address_space_jit_since(space, 0x5000), 30);
	kept = xp_address_space_share(space);
	assert_int_equal(xp_address_space_own(&space), 0);
	xp_address_space_clear(kept);
	xp_address_space_release(kept);
	assert_int_equal(xp_address_space_jit_since(space, 0x6000), 20);
	xp_address_space_clear(space);
	assert_int_equal(xp_address_space_jit_since(space, 0x6000), 0);
	for (uint64_t i = 1; i <= 3 * XP_SPACE_JIT_MAX; i++)
		assert_int_equal(map_jit(space, i << 16, (i << 16) + 1, i), 0);
	for (uint64_t i = 1; i <= 3 * XP_SPACE_JIT_MAX; i++) {
		uint64_t since = xp_address_space_jit_since(space, i << 16);

		assert_true(since == i || (!since && i <= 2 * XP_SPACE_JIT_MAX + XP_SPACE_JIT_MAX / 2));
	}
	xp_address_space_release(space);
}

/* A target maps new files endlessly: neither their number nor the length of their paths uses up the memory. */
TEST(test_endless_files)
{
	struct xp_file file = { .kind = XP_FILE_DISK, .path = (char *)"/lib" };
	struct xp_files files = { 0 };
	const struct xp_file *first;
	char path[4096];

	first = xp_files_intern(&files, &file);
	for (file.inode = 1; file.inode < XP_FILES_MAX; file.inode++)
		assert_int_equal(xp_files_intern(&files, &file)->kind, XP_FILE_DISK);
	for (; file.inode < XP_FILES_MAX + 10; file.inode++)
		assert_int_equal(xp_files_intern(&files, &file)->kind, XP_FILE_UNKNOWN);
	assert_int_equal(files.count, XP_FILES_MAX + 1);
	file.inode = 0;
	assert_ptr_equal(xp_files_intern(&files, &file), first);
	xp_files_free(&files);

	memset(path, 'a', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = 0;
	file.path = path;
	for (; file.inode < XP_FILES_MAX; file.inode++)
		assert_non_null(xp_files_intern(&files, &file));
	assert_in_range(files.count, 10000, XP_FILES_PATHS_BYTES_MAX / sizeof(path) + 1);
	xp_files_free(&files);
}
