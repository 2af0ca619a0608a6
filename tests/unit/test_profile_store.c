/* SPDX-License-Identifier: BSD-2-Clause */
/* Profiles that were on disk in between equal those that were not. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/util.h"
#include "profile/data.h"
#include "profile/store.h"

#define DEPTH 12

static struct xp_file files[] = {
	{ .kind = XP_FILE_DISK, .inode = 7, .path = "/bin/program" },
	{ .kind = XP_FILE_DISK, .inode = 8, .path = "/lib/liba.so" },
	{ .kind = XP_FILE_ANON, .path = "//anon" },
};
static const struct xp_vma vmas[] = {
	{ 0x555555555000, 0x555555557000, 0x1000, &files[0] },
	{ 0x7f0000001000, 0x7f0000005000, 0x1000, &files[1] },
	{ 0x7e0000001000, 0x7e0000005000, 0, &files[2] },
	{ 0x7f0000003000, 0x7f0000007000, 0x1000, &files[1] }, /* the library again, at a slightly higher address */
};

struct world {
	char dir[64];
	int dir_fd;
	struct xp_profile_store *store;
};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	strcpy(world->dir, "/tmp/xprof-unit-XXXXXX");
	assert_non_null(mkdtemp(world->dir));
	world->dir_fd = open(world->dir, O_RDONLY | O_DIRECTORY);
	assert_int_equal(xp_profile_store_new(&world->store, world->dir_fd), 0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;
	int left;

	xp_profile_store_free(world->store);
	close(world->dir_fd);
	left = rmdir(world->dir); /* fails if it is not empty */
	free(world);
	return left;
}

static void add(struct xp_profile *profile, unsigned int *seed)
{
	struct xp_frame frames[DEPTH];
	size_t count = 1 + (size_t)rand_r(seed) % DEPTH;

	for (size_t i = 0; i < count; i++) {
		const struct xp_vma *vma = &vmas[(size_t)rand_r(seed) % XP_ARRAY_SIZE(vmas)];

		frames[i] = (struct xp_frame){ vma->start + (size_t)rand_r(seed) % 64, vma, false };
		if (!(rand_r(seed) % 4))
			frames[i] = (struct xp_frame){ .address = 0xffffffff81000000 + rand_r(seed) % 64 };
	}
	assert_int_equal(xp_profile_add(profile, frames, count, NULL), 0);
}

static int find(void *arg, const struct xp_file *file, uint64_t start, uint64_t end, struct xp_profile_code *code)
{
	(void)arg;
	(void)start;
	(void)end;
	*code = (struct xp_profile_code){ .path = file->path, .is_made = file->kind != XP_FILE_DISK };
	return 0;
}

static char *written(struct xp_profile *profile, size_t *bytes)
{
	const struct xp_profile_files found = { find, NULL };
	int fd = memfd_create("profile", 0);
	char *text;

	assert_int_equal(xp_profile_write(profile, fd, 1000, &found), 0);
	*bytes = lseek(fd, 0, SEEK_END);
	text = malloc(*bytes + 1);
	assert_int_equal(pread(fd, text, *bytes, 0), *bytes);
	close(fd);
	return text;
}

static void check_same(struct xp_profile *a, struct xp_profile *b)
{
	size_t a_bytes, b_bytes;
	char *a_text = written(a, &a_bytes), *b_text = written(b, &b_bytes);

	assert_int_equal(xp_profile_samples(a), xp_profile_samples(b));
	assert_int_equal(a_bytes, b_bytes);
	assert_memory_equal(a_text, b_text, a_bytes);
	free(a_text);
	free(b_text);
}

/* After any number of samples, including none; several profiles in turn. */
static void test_back_and_forth(void **state)
{
	enum { PROFILES = 3, ROUNDS = 60 };
	struct world *world = *state;
	struct xp_profile *here[PROFILES], *away[PROFILES];

	for (unsigned int i = 0; i < PROFILES; i++) {
		assert_int_equal(xp_profile_new(&here[i]), 0);
		assert_int_equal(xp_profile_new(&away[i]), 0);
	}
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 0; i < PROFILES; i++) {
			unsigned int here_seed = 100 * round + i, away_seed = here_seed;

			for (unsigned int k = 0; k < round % 9 * (i + 1); k++) {
				add(here[i], &here_seed);
				add(away[i], &away_seed);
			}
			assert_int_equal(xp_profile_store_write(world->store, away[i]), 0);
			assert_int_equal(xp_profile_store_write(world->store, away[i]), 0);
			assert_true(xp_profile_memory_bytes(away[i]) < 256);
			assert_int_equal(xp_profile_samples(away[i]), xp_profile_samples(here[i]));
		}
		for (unsigned int i = 0; i < PROFILES && round % 7 == 6; i++)
			check_same(here[i], away[i]);
	}
	for (unsigned int i = 0; i < PROFILES; i++) {
		check_same(here[i], away[i]);
		assert_true(xp_profile_samples(here[i]) > 100);
		xp_profile_free(here[i]);
		assert_int_equal(xp_profile_store_write(world->store, away[i]), 0);
		xp_profile_free(away[i]);
	}
}

static int count_one(void *arg, uint64_t address)
{
	(void)address;
	++*(size_t *)arg;
	return 0;
}

static void test_addresses(void **state)
{
	struct world *world = *state;
	struct xp_profile *profile;
	unsigned int seed = 1;
	size_t before = 0, after = 0;

	assert_int_equal(xp_profile_new(&profile), 0);
	for (int i = 0; i < 50; i++)
		add(profile, &seed);
	assert_int_equal(xp_profile_each_address(profile, XP_FILE_KERNEL, count_one, &before), 0);
	assert_int_equal(xp_profile_store_write(world->store, profile), 0);
	assert_int_equal(xp_profile_each_address(profile, XP_FILE_KERNEL, count_one, &after), 0);
	assert_true(before > 10);
	assert_int_equal(before, after);
	xp_profile_free(profile);
}

/* In a child, which exits: checks that a profile that does not fit stays unchanged. */
static void fill(struct world *world)
{
	struct rlimit limit, old;
	struct xp_profile *here, *away;
	unsigned int here_seed = 1, away_seed = 1;
	int err = 0;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(xp_profile_new(&here), 0);
	assert_int_equal(xp_profile_new(&away), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = (struct rlimit){ 3000, old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (int i = 0; i < 100; i++) {
		add(here, &here_seed);
		add(away, &away_seed);
		err = xp_profile_store_write(world->store, away) ?: err;
	}
	assert_true(err == -EFBIG || err == -ENOSPC);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	check_same(here, away);
	exit(0);
}

/* In a child, which exits: checks that the file stays small if a profile that does not grow rests often. */
static void rest_often(struct world *world)
{
	const struct rlimit limit = { 16384, 16384 };
	struct xp_profile *here, *away;

	assert_int_equal(xp_profile_new(&here), 0);
	assert_int_equal(xp_profile_new(&away), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (unsigned int i = 0; i < 1000; i++) {
		unsigned int here_seed = i % 5, away_seed = here_seed;

		add(here, &here_seed);
		add(away, &away_seed);
		assert_int_equal(xp_profile_store_write(world->store, away), 0);
	}
	assert_int_equal(xp_profile_recall(away), 0);
	assert_int_equal(xp_profile_samples(away), 1000);
	assert_int_equal(away->tree.count, here->tree.count);
	assert_memory_equal(away->tree.nodes, here->tree.nodes, here->tree.count * sizeof(*here->tree.nodes));
	exit(0);
}

static void in_child(void (*run)(struct world *world), struct world *world)
{
	pid_t child = fork();
	int status;

	if (!child)
		run(world);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_full(void **state)
{
	in_child(fill, *state);
}

static void test_often(void **state)
{
	in_child(rest_often, *state);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = { TEST(test_back_and_forth), TEST(test_addresses), TEST(test_full),
					    TEST(test_often) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
