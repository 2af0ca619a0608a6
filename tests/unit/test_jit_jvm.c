// SPDX-License-Identifier: BSD-2-Clause
/* A JVM that xprof finds while it starts, before it handles the signal that makes it listen. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/util.h"
#include "jit/jit.h"

#define CODE 0x10000u
#define HZ 2000000000ull
#define BEGIN (10 * HZ)

static const struct xp_clock clock_of_test = { .hz = HZ, .mono_hz = HZ };

struct world {
	pid_t child;
	int to_child[2];
	int from_child[2];
	char map[64];
	char socket[64];
	struct xp_jits jits;
	struct xp_jit *jit;
	struct xp_file lib;
	struct xp_address_space space;
};

static void on_signal(int number)
{
	(void)number;
}

/* When requested, the JVM handles the signal and answers every client. */
static __attribute__((noreturn)) void be_jvm(const struct world *world)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char path[64], request[256], byte = 0;
	FILE *map;
	int fd;

	if (read(world->to_child[0], &byte, 1) != 1)
		_exit(1);
	signal(SIGQUIT, on_signal);
	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/.java_pid%d", getpid());
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 1) ||
	    write(world->from_child[1], &byte, 1) != 1)
		_exit(1);
	fd = accept(fd, NULL, NULL);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	map = fopen(path, "wx");
	if (fd < 0 || read(fd, request, sizeof(request)) <= 0 || !map || fprintf(map, "%x 100 hot\n", CODE) < 0 ||
	    fclose(map) || write(fd, "0\n", 2) != 2)
		_exit(1);
	close(fd);
	pause();
	_exit(0);
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_int_equal(pipe(world->to_child), 0);
	assert_int_equal(pipe(world->from_child), 0);
	world->child = fork();
	assert_true(world->child >= 0);
	if (!world->child)
		be_jvm(world);
	snprintf(world->map, sizeof(world->map), "/tmp/perf-%d.map", world->child);
	snprintf(world->socket, sizeof(world->socket), "/tmp/.java_pid%d", world->child);
	world->lib = (struct xp_file){ .kind = XP_FILE_DISK, .path = (char *)"/jvm/lib/server/libjvm.so" };
	assert_int_equal(xp_address_space_map(&world->space, &(struct xp_vma){ 0x1000, 0x2000, 0, &world->lib }), 0);
	world->jits = (struct xp_jits){ .clock = &clock_of_test, .bytes_left = 1 << 20, .jvm_attach = true };
	assert_int_equal(xp_jit_new(&world->jit, &world->jits, world->child, 1), 0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	xp_jit_free(world->jit);
	xp_jits_free(&world->jits);
	xp_address_space_free(&world->space);
	kill(world->child, SIGKILL);
	waitpid(world->child, NULL, 0);
	unlink(world->map);
	unlink(world->socket);
	for (int i = 0; i < 2; i++) {
		close(world->to_child[i]);
		close(world->from_child[i]);
	}
	free(world);
	return 0;
}

static void get_ready(struct world *world)
{
	char byte = 0;

	assert_int_equal(write(world->to_child[1], &byte, 1), 1);
	assert_int_equal(read(world->from_child[0], &byte, 1), 1);
}

static void hit(struct world *world, uint64_t tsc)
{
	xp_jit_hit(world->jit, CODE + 8, tsc);
}

/* Returns whether an answer is still possible. */
static bool is_waiting(const struct world *world)
{
	return xp_jit_has_unknown(world->jit);
}

static void look(struct world *world, uint64_t tsc)
{
	assert_in_range(xp_jit_refresh(world->jit, &world->space, tsc), 0, 1);
}

TEST_WITH(test_asked_again, setup, teardown)
{
	struct world *world = *state;
	uint64_t now = BEGIN + HZ;

	hit(world, BEGIN);
	look(world, BEGIN);
	assert_true(is_waiting(world));
	get_ready(world);
	for (look(world, now); is_waiting(world); look(world, ++now))
		usleep(1000);
	assert_int_equal(xp_jit_functions(world->jit), 1);
}

/* xprof stops asking a JVM that never handles the signal (-Xrs). */
TEST_WITH(test_given_up, setup, teardown)
{
	struct world *world = *state;
	uint64_t now = BEGIN;

	do {
		now += HZ;
		hit(world, now);
		look(world, now);
	} while (is_waiting(world) && now < BEGIN + 60 * HZ);
	assert_in_range(now, BEGIN + 20 * HZ, BEGIN + 50 * HZ);
}

/* Each pause between requests is twice as long as the one before. */
TEST_WITH(test_pauses, setup, teardown)
{
	struct world *world = *state;

	hit(world, BEGIN);
	look(world, BEGIN);
	look(world, BEGIN + HZ);
	get_ready(world);
	look(world, BEGIN + HZ + HZ / 2);
	usleep(200000);
	look(world, BEGIN + HZ + HZ / 2 + 1);
	assert_true(is_waiting(world));
	assert_int_equal(access(world->map, F_OK), -1);
}
