// SPDX-License-Identifier: BSD-2-Clause
/* Samples in the JIT code of a process that exits during the recording. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/util.h"
#include "sample/jit_samples.h"

#define CODE 0x10000u

static const struct xp_clock clock_of_test = { .hz = 2000000000, .mono_hz = 2000000000 };

struct world {
	pid_t child;
	char map[64];
	char dir[64];
	struct xp_jits jits;
	struct xp_file anon;
	struct xp_address_space *space;
	struct xp_image image;
};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	FILE *map;

	world->child = fork();
	assert_true(world->child >= 0);
	if (!world->child) {
		pause();
		_exit(0);
	}
	snprintf(world->map, sizeof(world->map), "/tmp/perf-%d.map", world->child);
	map = fopen(world->map, "wx");
	assert_non_null(map);
	fprintf(map, "%x 100 hot\n", CODE);
	fclose(map);
	strcpy(world->dir, "/tmp/jit_samples.XXXXXX");
	assert_non_null(mkdtemp(world->dir));

	world->anon = (struct xp_file){ .kind = XP_FILE_ANON, .path = (char *)"" };
	world->space = xp_address_space_new();
	assert_int_equal(xp_address_space_map(world->space, &(struct xp_vma){ CODE, 2 * CODE, 0, &world->anon }), 0);
	world->image = (struct xp_image){ .pid = world->child, .number = 1 };
	world->jits = (struct xp_jits){ .clock = &clock_of_test, .bytes_left = 1 << 20, .with_dumps = true };
	world->jits.dump_bytes_left = XP_JIT_DUMP_OUT_ALL_BYTES_MAX;
	world->jits.dir_fd = open(world->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(world->jits.dir_fd >= 0);
	*state = world;
	return 0;
}

static void end_child(struct world *world)
{
	if (!world->child)
		return;
	kill(world->child, SIGKILL);
	waitpid(world->child, NULL, 0);
	world->child = 0;
}

static int teardown(void **state)
{
	struct world *world = *state;
	char path[128];

	end_child(world);
	unlink(world->map);
	xp_jit_free(world->image.jit);
	xp_address_space_release(world->image.jit_space);
	xp_address_space_release(world->space);
	xp_jits_free(&world->jits);
	close(world->jits.dir_fd);
	snprintf(path, sizeof(path), "%s/jit-%d.dump", world->dir, world->image.pid);
	unlink(path);
	rmdir(world->dir);
	free(world);
	return 0;
}

static unsigned int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void hit(struct world *world, uint64_t address)
{
	assert_int_equal(xp_jit_samples_hit(&world->jits, &world->image, world->space, xp_clock_now_tsc(), address), 0);
}

static bool has_unknown(const struct world *world)
{
	return xp_jit_has_unknown(world->image.jit);
}

/* Resets the time budget, so that later steps do not depend on an earlier pause. */
static void allow(struct world *world)
{
	world->jits.looking = (struct xp_rate_limit){ 0 };
}

/* A check ends early if xprof loses the CPU: the sampled addresses are then searched again. */
static void refresh(struct world *world)
{
	struct xp_image *images[] = { &world->image };

	for (int try = 0; try < 10; try++) {
		allow(world);
		assert_int_equal(xp_jit_samples_refresh(&world->jits, images, 1), 0);
		if (!has_unknown(world))
			break;
	}
}

static void end_gone(struct world *world)
{
	struct xp_image *images[] = { &world->image };

	allow(world);
	xp_jit_samples_end_gone(&world->jits, images, 1);
}

/* An address in unknown code is searched once more, and not again if no source has the code. */
TEST_WITH(test_looks, setup, teardown)
{
	struct world *world = *state;
	FILE *map;

	hit(world, CODE + 8); /* causes an immediate check */
	refresh(world);
	assert_false(has_unknown(world));
	assert_int_equal(xp_jit_functions(world->image.jit), 1);
	map = fopen(world->map, "a");
	assert_non_null(map);
	fprintf(map, "%x 100 later\n", CODE + 0x100);
	fclose(map);
	hit(world, CODE + 0x108);
	assert_true(has_unknown(world));
	refresh(world);
	assert_false(has_unknown(world));
	assert_int_equal(xp_jit_functions(world->image.jit), 2);
	hit(world, CODE + 0x1000);
	refresh(world);
	assert_false(has_unknown(world));
	/* A thousand addresses are searched together. */
	for (int i = 0; i < 1000; i++)
		hit(world, CODE + 0x2000 + 16 * i);
	refresh(world);
	assert_false(has_unknown(world));
}

TEST_WITH(test_closed, setup, teardown)
{
	struct world *world = *state;
	unsigned int fds = count_fds();

	hit(world, CODE + 8);
	refresh(world);
	fds++; /* the socket to the child that reads memory, for all processes */
	assert_int_equal(count_fds(), fds + 2);
	/* The data is kept while the process lives. */
	end_gone(world);
	assert_int_equal(count_fds(), fds + 2);
	end_child(world);
	end_gone(world);
	assert_int_equal(count_fds(), fds);
	assert_null(world->image.jit_space);
	/* A late sample: its function is still known. */
	hit(world, CODE + 8);
	assert_false(has_unknown(world));
}

/* A process that used more than its share of the recorder's time is skipped for a while. */
TEST_WITH(test_costly, setup, teardown)
{
	struct world *world = *state;
	struct xp_image *images[] = { &world->image };

	hit(world, CODE + 8);
	refresh(world);
	xp_rate_limit_spend(&world->jits.looking, 100 * XP_ALLOWANCE_NS_PER_S);
	hit(world, CODE + 8);
	assert_int_equal(xp_jit_samples_refresh(&world->jits, images, 1), 0);
	assert_true(has_unknown(world));
}

/* A sample that waited for its unwind table has an outdated view of the process. */
TEST_WITH(test_newest_space, setup, teardown)
{
	struct world *world = *state;
	struct xp_address_space *old = world->space;

	xp_address_space_share(old);
	assert_int_equal(xp_address_space_own(&world->space), 0);
	assert_int_equal(xp_address_space_map(world->space, &(struct xp_vma){ 4 * CODE, 5 * CODE, 0, &world->anon }),
			 0);
	hit(world, CODE + 8);
	assert_ptr_equal(world->image.jit_space, world->space);
	assert_int_equal(xp_jit_samples_seen(&world->jits, &world->image, old, old->vmas), 0);
	assert_ptr_equal(world->image.jit_space, world->space);
	xp_address_space_release(old);
}
