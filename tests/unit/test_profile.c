/* SPDX-License-Identifier: BSD-2-Clause */
/* Samples to profiles: slots and mapping lines are read back by hand, following the format's specification. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/util.h"
#include "format/gperf_quirks.h"
#include "profile/profile.h"

static struct xp_file program = { .kind = XP_FILE_DISK, .inode = 7, .path = "/bin/program" };
static struct xp_file lib = { .kind = XP_FILE_DISK, .inode = 8, .path = "/lib/liba.so" };
static struct xp_file later = { .kind = XP_FILE_DISK, .inode = 9, .path = "/lib/libb.so" };
static struct xp_file nameless = { .kind = XP_FILE_DISK, .path = "/memfd:jit" };
static struct xp_file anon = { .kind = XP_FILE_ANON, .path = "//anon" };
static struct xp_file vdso = { .kind = XP_FILE_VDSO, .path = "[vdso]" };

static const struct xp_vma program_vma = { 0x555555555000, 0x555555557000, 0x1000, &program };
static const struct xp_vma lib_vma = { 0x7f0000001000, 0x7f0000005000, 0x1000, &lib };

struct world {
	struct xp_profile *profile;
	int find_error;
	uint64_t *slots; /* of the file after the header */
	char *text;
};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_int_equal(xp_profile_new(&world->profile), 0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	xp_profile_free(world->profile);
	free(world->slots);
	free(world);
	return 0;
}

static int find(void *arg, const struct xp_file *file, uint64_t start, uint64_t end, struct xp_profile_code *code)
{
	struct world *world = arg;

	*code = (struct xp_profile_code){ .path = file->path };
	if (file->kind == XP_FILE_KERNEL) {
		assert_int_equal(start % XP_PROFILE_WINDOW_BYTES, 0);
		assert_int_equal(end - start, XP_PROFILE_WINDOW_BYTES);
		*code = (struct xp_profile_code){ .path = "/sym/kernel.so", .is_made = true };
	} else if (file == &nameless) {
		code->path = NULL;
	} else if (file->kind == XP_FILE_JIT) {
		assert_int_equal(start, XP_PROFILE_JIT_BASE);
		*code = (struct xp_profile_code){ .path = "/sym/jit.so", .is_made = true };
	} else if (file->kind == XP_FILE_VDSO) {
		*code = (struct xp_profile_code){ .path = "/sym/vdso.so", .is_made = true };
	} else if (file == &program) {
		*code = (struct xp_profile_code){
			.path = file->path, .is_elf = true, .exec_vaddr = 0x1040, .exec_offset = 0x1040
		};
	}
	return world->find_error;
}

static int write_profile(struct world *world, uint64_t period_us)
{
	const struct xp_profile_files files = { find, world };
	int fd = memfd_create("profile", 0);
	int err = xp_profile_write(world->profile, fd, period_us, &files);
	size_t size = lseek(fd, 0, SEEK_END), i;
	uint64_t header[5];

	if (err) {
		close(fd);
		return err;
	}
	assert_int_equal(pread(fd, header, sizeof(header), 0), sizeof(header));
	assert_int_equal(header[0], 0);
	assert_int_equal(header[1], 3);
	assert_int_equal(header[2], 0);
	assert_int_equal(header[3], period_us);
	assert_int_equal(header[4], 0);
	free(world->slots);
	world->slots = calloc(1, size - sizeof(header) + 1);
	assert_int_equal(pread(fd, world->slots, size - sizeof(header), sizeof(header)), size - sizeof(header));
	close(fd);
	for (i = 0; world->slots[i]; i += 2 + world->slots[i + 1])
		;
	assert_int_equal(world->slots[i + 1], 1);
	assert_int_equal(world->slots[i + 2], 0);
	world->text = (char *)&world->slots[i + 3];
	return 0;
}

/* frames: the same ones, each an address and its mapping. */
#define ADD(world, ...)                                                                                                \
	do {                                                                                                           \
		const struct xp_frame frames_[] = { __VA_ARGS__ };                                                     \
		assert_int_equal(xp_profile_add((world)->profile, frames_, XP_ARRAY_SIZE(frames_), NULL), 0);          \
	} while (0)

#define CHECK_SLOTS(world, ...)                                                                                        \
	do {                                                                                                           \
		const uint64_t expected_[] = { __VA_ARGS__, 0 };                                                       \
		for (size_t i_ = 0; i_ < XP_ARRAY_SIZE(expected_); i_++)                                               \
			assert_int_equal((world)->slots[i_], expected_[i_]);                                           \
	} while (0)

static void test_empty(void **state)
{
	struct world *world = *state;

	assert_int_equal(write_profile(world, 10101), 0);
	assert_int_equal(world->slots[0], 0);
	assert_string_equal(world->text, "");
	assert_int_equal(xp_profile_samples(world->profile), 0);
}

static void test_sum(void **state)
{
	struct world *world = *state;
	const struct xp_frame leaf = { 0x555555555100, &program_vma, false };
	const struct xp_frame main_frame = { 0x555555555200, &program_vma, false };
	const struct xp_frame callee = { 0x7f0000002000, &lib_vma, false };

	ADD(world, leaf, main_frame);
	ADD(world, callee, leaf, main_frame);
	ADD(world, leaf, main_frame);
	ADD(world, main_frame);
	ADD(world, leaf, main_frame);
	assert_int_equal(xp_profile_samples(world->profile), 5);
	assert_int_equal(write_profile(world, 1000), 0);
	CHECK_SLOTS(world, 1, 1, 0x555555555200, 3, 2, 0x555555555100, 0x555555555200, 1, 3, 0x7f0000002000,
		    0x555555555100, 0x555555555200);
	/* The program's segment and its line begin within a page; the library is not read. */
	assert_string_equal(world->text, "555555555040-555555557000 r-xp 00001040 00:00 7           /bin/program\n"
					 "7f0000001000-7f0000005000 r-xp 00001000 00:00 8           /lib/liba.so\n");
}

/* Adjacent nodes that are not parent and child. */
static void test_neighbours(void **state)
{
	struct world *world = *state;
	const struct xp_frame a = { 0x7f0000001001, &lib_vma, false };
	const struct xp_frame b = { 0x7f0000001002, &lib_vma, false };
	const struct xp_frame outer = { 0x7f0000001003, &lib_vma, false };

	ADD(world, a, outer);
	ADD(world, b, outer);
	ADD(world, b, a, outer);
	assert_int_equal(write_profile(world, 1000), 0);
	CHECK_SLOTS(world, 1, 2, a.address, outer.address, 1, 2, b.address, outer.address, 1, 3, b.address, a.address,
		    outer.address);
}

static void test_interrupted(void **state)
{
	struct world *world = *state;

	ADD(world, { 0xffffffff81000010, NULL, false }, { 0xffffffff81000020, NULL, false },
	    { 0x555555555100, &program_vma, true }, { 0x555555555200, &program_vma, false });
	/* It makes no difference for a leaf. */
	ADD(world, { 0x555555555100, &program_vma, true }, { 0x555555555200, &program_vma, false });
	assert_int_equal(write_profile(world, 1000), 0);
	CHECK_SLOTS(world, 1, 4, 0x1ffff81000010, 0x1ffff81000020, 0x555555555101, 0x555555555200, 1, 2, 0x555555555100,
		    0x555555555200);
	assert_non_null(
	    strstr(world->text, "1ffff80000000-1ffff88000000 r-xp 00001000 00:00 0           /sym/kernel.so\n"));
}

/* Code that is mapped at 0. The format has no chain that begins with 0. */
static void test_null(void **state)
{
	struct world *world = *state;
	const struct xp_vma null = { 0, 0x1000, 0, &lib };

	ADD(world, { 0, &null, false }, { 0x555555555200, &program_vma, false });
	assert_int_equal(write_profile(world, 1000), 0);
	assert_int_equal(world->slots[0], 1);
	assert_int_equal(world->slots[1], 2);
	assert_int_not_equal(world->slots[2], 0);
}

/* Kernel addresses of two windows, including the last one; other addresses of the upper half are no code. */
static void test_kernel(void **state)
{
	struct world *world = *state;

	ADD(world, { 0xffffffffffffffff, NULL, false });
	ADD(world, { 0xffffffffc0000000, NULL, false });
	ADD(world, { 0xffff888000000000, NULL, false });
	ADD(world, { 1, NULL, false }, { 0xffffffffffffffff, NULL, true });
	assert_int_equal(write_profile(world, 1000), 0);
	CHECK_SLOTS(world, 1, 1, 0x1ffffffffffff, 1, 1, 0x1ffffc0000000, 1, 1, XP_GPERF_UNKNOWN_BASE + 8, 1, 2,
		    XP_GPERF_UNKNOWN_BASE + 8, XP_GPERF_UNKNOWN_BASE + 8 - 1);
	assert_non_null(strstr(world->text, "1ffffc0000000-1ffffc8000000 "));
	assert_non_null(strstr(world->text, "1fffff8000000-2000000000000 "));
	assert_non_null(strstr(world->text, "800000000000-800000001000 r-xp 00000000 00:00 0           [unknown]\n"));
}

/* Mappings with addresses outside them. */
static void test_outside(void **state)
{
	struct world *world = *state;
	const struct xp_vma last = { UINT64_MAX - 0xfff, UINT64_MAX, 0, &lib };

	ADD(world, { 0, NULL, false });
	ADD(world, { 0x1000, &lib_vma, false });
	ADD(world, { lib_vma.end + 1, &lib_vma, false });
	ADD(world, { lib_vma.end, &lib_vma, false });
	ADD(world, { UINT64_MAX, &last, false });
	assert_int_equal(write_profile(world, 1000), 0);
	CHECK_SLOTS(world, 3, 1, XP_GPERF_UNKNOWN_BASE + 8, 1, 1, XP_GPERF_UNKNOWN_BASE | lib_vma.end, 1, 1,
		    XP_GPERF_UNKNOWN_BASE | 0xfff);
}

/* JIT functions are where jit.c put them, whatever else is or was at their address. */
static void test_jit(void **state)
{
	struct world *world = *state;
	const struct xp_vma jit = { 0x7f0000001000, 0x7f0000009000, 0, &anon };
	const uint64_t first = XP_PROFILE_JIT_BASE + 0x10, second = XP_PROFILE_JIT_BASE + 0x200;

	ADD(world, { first, &xp_profile_jit_vma, false });
	ADD(world, { second, &xp_profile_jit_vma, false });
	ADD(world, { first, &xp_profile_jit_vma, false });
	ADD(world, { 0x7f0000002000, &jit, false }); /* unknown which one it was */
	ADD(world, { first + 8, &xp_profile_jit_vma, false }, { second, &xp_profile_jit_vma, true });
	assert_int_equal(write_profile(world, 1000), 0);
	CHECK_SLOTS(world, 2, 1, first, 1, 1, second, 1, 1, XP_PROFILE_ANON_BASE + 8, 1, 2, first + 8, second + 1);
	assert_string_equal(world->text, "2000100000000-2000100100000 r-xp 00000000 00:00 0           [anon]\n"
					 "2000200000000-2000200000202 r-xp 00001000 00:00 0           /sym/jit.so\n");
}

static void test_numbered(void **state)
{
	struct world *world = *state;
	const struct xp_vma jit = { 0x7f0000001000, 0x7f0000009000, 0, &anon }; /* where the library was */
	const struct xp_vma memfd = { 0x7e0000001000, 0x7e0000002000, 0, &nameless };

	ADD(world, { 0x7f0000001500, &lib_vma, false });
	ADD(world, { 0x7f0000001500, &jit, false });
	ADD(world, { 0x7e0000001234, &memfd, false });
	ADD(world, { 0x7f0000001600, &jit, false }, { 0x7f0000001500, &jit, false });
	assert_int_equal(write_profile(world, 1000), 0);
	CHECK_SLOTS(world, 1, 1, 0x7f0000001500, 1, 1, XP_PROFILE_ANON_BASE + 8, 1, 1, XP_PROFILE_ANON_BASE + 24, 1, 2,
		    XP_PROFILE_ANON_BASE + 40, XP_PROFILE_ANON_BASE + 8);
	assert_string_equal(world->text, "7f0000001000-7f0000005000 r-xp 00001000 00:00 8           /lib/liba.so\n"
					 "2000100000000-2000100100000 r-xp 00000000 00:00 0           [anon]\n");
}

/* A library at the address of another one is moved; one that is mapped twice, or in parts, stays. */
static void test_reused(void **state)
{
	struct world *world = *state;
	const struct xp_vma again = { 0x7f0000003000, 0x7f0000007000, 0x2000, &later };
	const struct xp_vma twice = { 0x7f0000101000, 0x7f0000105000, 0x1000, &lib };
	const struct xp_vma part = { 0x7f0000107000, 0x7f0000108000, 0x7000, &lib };

	ADD(world, { 0x7f0000003500, &lib_vma, false });
	ADD(world, { 0x7f0000003500, &again, false });
	ADD(world, { 0x7f0000101500, &twice, false }, { 0x7f0000107500, &part, false });
	assert_int_equal(write_profile(world, 1000), 0);
	CHECK_SLOTS(world, 1, 1, 0x7f0000003500, 1, 1, XP_PROFILE_MOVED_BASE + 0x500, 1, 2, 0x7f0000101500,
		    0x7f0000107500);
	assert_string_equal(world->text, "7f0000001000-7f0000005000 r-xp 00001000 00:00 8           /lib/liba.so\n"
					 "7f0000101000-7f0000108000 r-xp 00001000 00:00 8           /lib/liba.so\n"
					 "3000000000000-3000000004000 r-xp 00002000 00:00 9           /lib/libb.so\n");
}

/* The same library at a slightly higher address: the same address is other code. */
static void test_shifted(void **state)
{
	struct world *world = *state;
	const struct xp_vma shifted = { 0x7f0000003000, 0x7f0000007000, 0x1000, &lib };

	ADD(world, { 0x7f0000003500, &lib_vma, false });
	ADD(world, { 0x7f0000003500, &shifted, false });
	assert_int_equal(write_profile(world, 1000), 0);
	CHECK_SLOTS(world, 1, 1, 0x7f0000003500, 1, 1, XP_PROFILE_MOVED_BASE + 0x500);
}

/* Only a part of it was seen first, so a range that it overlaps may lie below. */
static void test_reused_below(void **state)
{
	struct world *world = *state;
	const struct xp_vma wide = { 0x7f0000000000, 0x7f0000009000, 0, &later };
	const struct xp_vma far = { 0x100000000000000, 0x100000000003000, 0, &program };

	ADD(world, { 0x7f0000003500, &lib_vma, false });
	ADD(world, { 0x7f0000003500, &wide, false });
	ADD(world, { 0x100000000002000, &far, false });
	assert_int_equal(write_profile(world, 1000), 0);
	CHECK_SLOTS(world, 1, 1, 0x7f0000003500, 1, 1, XP_PROFILE_MOVED_BASE + 0x3500, 1, 1,
		    XP_PROFILE_MOVED_BASE + (8ull << 30) + 0x2000);
}

static void test_vdso(void **state)
{
	struct world *world = *state;
	const struct xp_vma vma = { 0x7ffff7fc1000, 0x7ffff7fc3000, 0, &vdso };

	ADD(world, { 0x7ffff7fc1a00, &vma, false });
	assert_int_equal(write_profile(world, 1000), 0);
	CHECK_SLOTS(world, 1, 1, 0x7ffff7fc1a00);
	assert_string_equal(world->text, "7ffff7fc1000-7ffff7fc3000 r-xp 00001000 00:00 0           /sym/vdso.so\n");
}

static void test_deep(void **state)
{
	struct world *world = *state;
	struct xp_frame frames[2000];

	for (size_t i = 0; i < XP_ARRAY_SIZE(frames); i++)
		frames[i] = (struct xp_frame){ 0x7f0000001000 + i, &lib_vma, false };
	assert_int_equal(xp_profile_add(world->profile, frames, XP_ARRAY_SIZE(frames), NULL), 0);
	assert_int_equal(write_profile(world, 1000), 0);
	assert_int_equal(world->slots[0], 1);
	assert_int_equal(world->slots[1], 1024);
	for (size_t i = 0; i < 1024; i++)
		assert_int_equal(world->slots[2 + i], 0x7f0000001000 + i);
}

static void test_errors(void **state)
{
	struct world *world = *state;

	assert_int_equal(xp_profile_add(world->profile, NULL, 0, NULL), -EINVAL);
	assert_int_equal(write_profile(world, 0), -EINVAL);
	ADD(world, { 0x7f0000001000, &lib_vma, false });
	world->find_error = -EIO;
	assert_int_equal(write_profile(world, 1000), -EIO);
}

static int note(void *arg, uint64_t address)
{
	uint64_t **at = arg;

	*(*at)++ = address;
	return address == 0xffffffff81000077 ? 5 : 0;
}

static void test_each_address(void **state)
{
	struct world *world = *state;
	uint64_t seen[8] = { 0 }, *at = seen;

	ADD(world, { 0xffffffff81000010, NULL, false }, { 0x7f0000001000, &lib_vma, false });
	ADD(world, { 0xffffffff81000010, NULL, false });
	ADD(world, { 0xffffffff81000009, NULL, false });
	assert_int_equal(xp_profile_each_address(world->profile, XP_FILE_KERNEL, note, &at), 0);
	/* Chains are added from the outermost frame inwards. */
	assert_int_equal(at - seen, 2);
	assert_int_equal(seen[0], 0xffffffff81000010);
	assert_int_equal(seen[1], 0xffffffff81000009);
	at = seen;
	assert_int_equal(xp_profile_each_address(world->profile, XP_FILE_DISK, note, &at), 0);
	assert_int_equal(at - seen, 1);
	assert_int_equal(seen[0], 0x7f0000001000);
	ADD(world, { 0xffffffff81000077, NULL, false });
	ADD(world, { 0xffffffff81000078, NULL, false });
	at = seen;
	assert_int_equal(xp_profile_each_address(world->profile, XP_FILE_KERNEL, note, &at), 5);
	assert_int_equal(at - seen, 3);
}

#define PATH_DEPTH 40

/* The outermost frame is the last one. */
static void fill(struct xp_frame frames[PATH_DEPTH], unsigned int *seed, size_t count)
{
	for (size_t i = 0; i < count; i++)
		frames[i] = (struct xp_frame){ lib_vma.start + (unsigned int)rand_r(seed) % 8, &lib_vma, false };
}

/* Chains with a known beginning give the same profile. */
static void test_path(void **state)
{
	struct xp_frame frames[PATH_DEPTH] = { { 0 } };
	uint32_t nodes[2][PATH_DEPTH];
	struct xp_frame_path paths[2] = { { .nodes = nodes[0] }, { .nodes = nodes[1] } };
	struct world *world = *state;
	struct xp_profile *with, *without;
	unsigned int seed = 1;
	size_t bytes;
	uint64_t *slots;

	assert_int_equal(xp_profile_new(&with), 0);
	assert_int_equal(xp_profile_new(&without), 0);
	fill(frames, &seed, PATH_DEPTH);
	for (int i = 0; i < 3000; i++) {
		struct xp_frame_path *path = &paths[i / 10 % 2];
		size_t changed = (unsigned int)rand_r(&seed) % PATH_DEPTH, count = PATH_DEPTH - changed % 5;

		/* Each thread runs for some time; its last chain is not the present contents of frames. */
		if (i % 10 == 0)
			path->known = 0;
		fill(frames, &seed, changed);
		path->count = count - 1;
		path->known = XP_MIN(path->known, XP_MIN(PATH_DEPTH - changed, count - 1));
		/* A sample without a path may come in between. */
		if (i % 7 == 0) {
			assert_int_equal(xp_profile_add(with, frames + 1, 2, NULL), 0);
			assert_int_equal(xp_profile_add(without, frames + 1, 2, NULL), 0);
		}
		assert_int_equal(xp_profile_add(with, frames + (PATH_DEPTH - count), count, path), 0);
		assert_int_equal(xp_profile_known(with, path), count - 1);
		assert_int_equal(xp_profile_known(without, path), 0);
		assert_int_equal(xp_profile_add(without, frames + (PATH_DEPTH - count), count, NULL), 0);
	}
	xp_profile_free(world->profile);
	world->profile = with;
	assert_int_equal(write_profile(world, 1000), 0);
	bytes = (size_t)(world->text - (char *)world->slots);
	slots = world->slots;
	world->slots = NULL;
	world->profile = without;
	assert_int_equal(write_profile(world, 1000), 0);
	assert_int_equal(world->text - (char *)world->slots, bytes);
	assert_memory_equal(world->slots, slots, bytes);
	free(slots);
	xp_profile_free(with);
}

/* Another profile has other nodes, and a chain that is too deep has no place for its outermost frames. */
static void test_path_elsewhere(void **state)
{
	struct xp_frame frames[2000];
	uint32_t nodes[2000];
	struct xp_frame_path path = { .nodes = nodes, .count = 3 };
	struct world *world = *state;
	struct xp_profile *other;

	assert_int_equal(xp_profile_new(&other), 0);
	for (size_t i = 0; i < XP_ARRAY_SIZE(frames); i++)
		frames[i] = (struct xp_frame){ lib_vma.start + i % 16, &lib_vma, false };
	assert_int_equal(xp_profile_add(other, frames + 4, 3, NULL), 0);
	assert_int_equal(xp_profile_add(other, frames, 4, &path), 0);
	assert_int_equal(xp_profile_known(other, &path), 3);
	assert_int_equal(xp_profile_add(world->profile, frames, 4, &path), 0);
	assert_int_equal(xp_profile_known(other, &path), 0);
	path.count = XP_ARRAY_SIZE(frames) - 1;
	assert_int_equal(xp_profile_add(world->profile, frames, XP_ARRAY_SIZE(frames), &path), 0);
	assert_int_equal(xp_profile_known(world->profile, &path), 3);
	assert_int_equal(write_profile(world, 1000), 0);
	assert_int_equal(world->slots[1], 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(world->slots[2 + i], lib_vma.start + i);
	assert_int_equal(world->slots[7], XP_GPERF_CHAIN_MAX);
	xp_profile_free(other);
}

/* Many chains with little in common: all are kept, in little memory. */
static void test_many(void **state)
{
	enum { CHAINS = 20000, DEPTH = 30, ROUNDS = 3, FUNCTIONS = 4096 };
	struct world *world = *state;
	uint64_t samples = 0, records = 0;

	for (int round = 0; round < ROUNDS; round++) {
		unsigned int seed = 1;

		for (int chain = 0; chain < CHAINS; chain++) {
			struct xp_frame frames[DEPTH];

			for (int i = 0; i < DEPTH; i++)
				frames[i] = (struct xp_frame){ lib_vma.start + (unsigned int)rand_r(&seed) % FUNCTIONS,
							       &lib_vma, false };
			assert_int_equal(xp_profile_add(world->profile, frames, DEPTH, NULL), 0);
		}
	}
	assert_int_equal(xp_profile_samples(world->profile), CHAINS * ROUNDS);
	assert_true(xp_profile_memory_bytes(world->profile) < 20 << 20);
	assert_int_equal(write_profile(world, 1000), 0);
	for (uint64_t *slot = world->slots; slot[0]; slot += 2 + slot[1]) {
		assert_int_equal(slot[0], ROUNDS);
		assert_int_equal(slot[1], DEPTH);
		samples += slot[0];
		records++;
	}
	assert_int_equal(samples, CHAINS * ROUNDS);
	assert_int_equal(records, CHAINS);
}

/* Chains that begin like the one before, or differ in something that the address does not show. */
static void test_like_the_last(void **state)
{
	struct world *world = *state;
	const struct xp_vma other = { lib_vma.start, lib_vma.end, lib_vma.file_offset, &later };
	const struct xp_vma shifted = { lib_vma.start, lib_vma.end, lib_vma.file_offset + 0x1000, &lib };
	const struct xp_frame main_frame = { 0x555555555200, &program_vma, false };
	const struct xp_frame caller = { 0x7f0000002000, &lib_vma, false };
	const struct xp_frame leaf = { 0x7f0000003000, &lib_vma, false };
	const uint64_t moved = XP_PROFILE_MOVED_BASE;

	for (int i = 0; i < 100; i++)
		ADD(world, leaf, caller, main_frame);
	ADD(world, leaf, { caller.address, &other, false }, main_frame);
	ADD(world, leaf, caller, main_frame);
	ADD(world, leaf, { caller.address, &shifted, false }, main_frame);
	ADD(world, leaf, { caller.address, &lib_vma, true }, main_frame);
	ADD(world, leaf, caller, main_frame);
	ADD(world, caller, main_frame);
	ADD(world, leaf, caller, main_frame, main_frame);
	ADD(world, main_frame);
	ADD(world, leaf, caller, main_frame, main_frame);
	ADD(world, caller, main_frame); /* the deeper part has ended */
	ADD(world, leaf, caller, caller, main_frame);
	assert_int_equal(xp_profile_samples(world->profile), 111);
	assert_int_equal(write_profile(world, 1000), 0);
	CHECK_SLOTS(world, 1, 1, main_frame.address, 2, 2, caller.address, main_frame.address, 102, 3, leaf.address,
		    caller.address, main_frame.address, 1, 3, leaf.address, moved + 0x1000, main_frame.address, 1, 3,
		    leaf.address, moved + (8ull << 30) + 0x1000, main_frame.address, 1, 3, leaf.address,
		    caller.address + 1, main_frame.address, 2, 4, leaf.address, caller.address, main_frame.address,
		    main_frame.address, 1, 4, leaf.address, caller.address, caller.address, main_frame.address);
}

/* A process that is sampled once takes little memory: there may be thousands. */
static void test_small(void **state)
{
	struct world *world = *state;

	ADD(world, { 0x7f0000001000, &lib_vma, false }, { 0x7f0000001008, &lib_vma, false });
	assert_true(xp_profile_memory_bytes(world->profile) < 1024);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_empty),
		TEST(test_sum),
		TEST(test_neighbours),
		TEST(test_shifted),
		TEST(test_interrupted),
		TEST(test_null),
		TEST(test_kernel),
		TEST(test_outside),
		TEST(test_numbered),
		TEST(test_reused),
		TEST(test_reused_below),
		TEST(test_vdso),
		TEST(test_deep),
		TEST(test_errors),
		TEST(test_each_address),
		TEST(test_path),
		TEST(test_path_elsewhere),
		TEST(test_many),
		TEST(test_small),
		TEST(test_like_the_last),
		TEST(test_jit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
