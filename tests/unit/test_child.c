/* SPDX-License-Identifier: BSD-2-Clause */
/* The children of xprof: what they inherit, and how they end. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/util.h"

/* The exit code is the line of the failed check. */
#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what))                                                                                           \
			return __LINE__;                                                                               \
	} while (0)

static int run(const struct xp_child_options *options, xp_child_main *what, void *arg)
{
	struct xp_child child;

	assert_int_equal(xp_child_start(&child, options, what, arg), 0);
	if (child.fd >= 0)
		close(child.fd);
	return xp_child_wait(child.pid, -1);
}

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = -3; /* ".", "..", and the directory's own descriptor */

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static bool is_null(int fd)
{
	struct stat st, null;

	return !fstat(fd, &st) && !stat("/dev/null", &null) && st.st_rdev == null.st_rdev;
}

static rlim_t limit_of(int resource)
{
	struct rlimit limit;

	return getrlimit((enum __rlimit_resource)resource, &limit) ? 1 : limit.rlim_cur;
}

static int is_bare(void *inode)
{
	sigset_t blocked;
	struct stat st;

	CHECK(is_null(0) && is_null(1) && is_null(2) && is_null(3));
	CHECK(!fstat(XP_CHILD_FDS, &st) && st.st_ino == *(ino_t *)inode);
	CHECK(is_null(XP_CHILD_FDS + 1));
	CHECK(count_fds() == XP_CHILD_FDS + 2);
	CHECK(!sigprocmask(SIG_BLOCK, NULL, &blocked) && sigisemptyset(&blocked));
	CHECK(signal(SIGUSR1, SIG_IGN) == SIG_DFL && signal(SIGINT, SIG_IGN) == SIG_IGN);
	CHECK(limit_of(RLIMIT_CORE) == 0);
	CHECK(alarm(0) == 0);
	return 0;
}

/*
 * Children inherit only the given descriptors, with any numbers, and no signals. They ignore signals of the terminal.
 */
TEST(test_bare)
{
	struct xp_child_options options = { .fds = { 0, 999 }, .fd_count = 2 };
	sigset_t all, before;
	struct stat st;

	options.fds[0] = open("/proc/self/status", O_RDONLY);
	assert_int_equal(fstat(options.fds[0], &st), 0);
	signal(SIGUSR1, SIG_IGN);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	assert_int_equal(run(&options, is_bare, &st.st_ino), 0);
	sigprocmask(SIG_SETMASK, &before, NULL);
	signal(SIGUSR1, SIG_DFL);
	close(options.fds[0]);
}

/* Returns the size of the address space. */
static rlim_t own_bytes(void)
{
	char text[32] = "";
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	return n > 0 ? strtoull(text, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE) : 0;
}

static int is_limited(void *arg)
{
	char name[16];

	(void)arg;
	CHECK(limit_of(RLIMIT_CPU) == 7);
	CHECK(limit_of(RLIMIT_AS) > 1 << 30 && limit_of(RLIMIT_AS) <= (1 << 30) + own_bytes());
	CHECK(limit_of(RLIMIT_DATA) == 1 << 29);
	CHECK(limit_of(RLIMIT_FSIZE) == 4096);
	CHECK(limit_of(RLIMIT_NPROC) == 0);
	CHECK(alarm(0) > 0);
	CHECK(!prctl(PR_GET_NAME, name) && !strcmp(name, "xprof-test"));
	CHECK(geteuid() != 0 && prctl(PR_GET_DUMPABLE) == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	CHECK(setuid(0) && errno == EPERM);
	CHECK(fork() < 0);
	return 0;
}

TEST(test_limits)
{
	static const struct xp_child_options options = {
		.name = "xprof-test",
		.drops_privileges = true,
		.is_oom_victim = true,
		.limits = { 10, 7, 1 << 30, 1 << 29, 4096, true },
	};

	if (geteuid())
		skip();
	assert_int_equal(run(&options, is_limited, NULL), 0);
}

static bool can_map(size_t bytes)
{
	return mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

static int maps_its_share(void *arg)
{
	(void)arg;
	CHECK(can_map(192 << 20));
	CHECK(!can_map(128 << 20));
	return 0;
}

/* The parent's rings are in the child's address space, too. */
TEST(test_large_parent)
{
	static const struct xp_child_options options = { .limits.address_bytes = 256 << 20, .drops_privileges = true };
	size_t bytes = (size_t)1 << 30;
	void *ring = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(ring, MAP_FAILED);
	assert_int_equal(run(&options, maps_its_share, NULL), 0);
	assert_int_equal(munmap(ring, bytes), 0);
}

/* Prints its PID, and waits if it has an argument. */
static int answer(void *stay)
{
	pid_t self = getpid();

	if (write(XP_CHILD_CHANNEL, &self, sizeof(self)) != sizeof(self))
		return 1;
	if (stay)
		pause();
	return 3;
}

static int hang(void *arg)
{
	(void)arg;
	pause();
	return 0;
}

/* Prints the PID of an inner child. */
static int start_inner(void *options)
{
	struct xp_child inner;
	pid_t pid;

	if (xp_child_start(&inner, options, answer, options) || read(inner.fd, &pid, sizeof(pid)) != sizeof(pid) ||
	    write(XP_CHILD_CHANNEL, &pid, sizeof(pid)) != sizeof(pid))
		return 1;
	pause();
	return 0;
}

/* Kills the parent of a child. Returns whether the child dies, too: both have the pipe's end open. */
static bool dies_with_parent(bool outlives_parent, int timeout_ms)
{
	struct xp_child_options outer = { .channel = XP_CHILD_PIPE, .fd_count = 1 };
	struct xp_child_options inner = {
		.channel = XP_CHILD_SOCKET, .fds = { XP_CHILD_FDS }, .fd_count = 1, .outlives_parent = outlives_parent
	};
	struct pollfd end = { .events = POLLIN };
	struct xp_child child;
	int ends[2];
	bool is_gone;
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	outer.fds[0] = ends[1];
	assert_int_equal(xp_child_start(&child, &outer, start_inner, &inner), 0);
	close(ends[1]);
	assert_int_equal(read(child.fd, &pid, sizeof(pid)), sizeof(pid));
	assert_true(xp_child_kill(&child, 10000));
	assert_int_equal(child.fd, -1);
	end.fd = ends[0];
	is_gone = poll(&end, 1, timeout_ms) == 1;
	if (!is_gone)
		kill(pid, SIGKILL);
	close(ends[0]);
	return is_gone;
}

TEST(test_parent_dies)
{
	assert_true(dies_with_parent(false, 10000));
	assert_false(dies_with_parent(true, 100));
}

/* The parent of a child ends before the child. */
TEST(test_orphan)
{
	struct xp_child_options outer = { .channel = XP_CHILD_PIPE }, inner = { .channel = XP_CHILD_SOCKET };
	struct xp_child child, orphan = { .fd = -1 };

	inner.outlives_parent = true;
	assert_int_equal(xp_child_start(&child, &outer, start_inner, &inner), 0);
	assert_int_equal(read(child.fd, &orphan.pid, sizeof(orphan.pid)), sizeof(orphan.pid));
	assert_true(xp_child_kill(&child, 10000));
	assert_int_equal(xp_child_wait(orphan.pid, 50), -EAGAIN);
	assert_true(xp_child_kill(&orphan, 10000));
}

TEST(test_ends)
{
	static const struct xp_child_options quiet = { 0 }, late = { .limits.seconds = 1 };
	static const struct xp_child_options talking = { .channel = XP_CHILD_PIPE };
	struct xp_child child;
	uint64_t begin_ns;
	pid_t pid;

	assert_int_equal(xp_child_start(&child, &talking, answer, NULL), 0);
	assert_int_equal(read(child.fd, &pid, sizeof(pid)), sizeof(pid));
	assert_int_equal(pid, child.pid);
	assert_int_equal(read(child.fd, &pid, sizeof(pid)), 0);
	close(child.fd);
	assert_int_equal(xp_child_wait(child.pid, 10000), 3);
	assert_int_equal(xp_child_wait(child.pid, 10000), -ECHILD);

	assert_int_equal(xp_child_start(&child, &quiet, hang, NULL), 0);
	assert_int_equal(child.fd, -1);
	assert_int_equal(xp_child_wait(child.pid, 0), -EAGAIN);
	begin_ns = xp_now_ns();
	assert_int_equal(xp_child_wait(child.pid, 50), -EAGAIN);
	assert_true(xp_now_ns() - begin_ns >= 50000000);
	assert_true(xp_child_kill(&child, 10000));
	assert_int_equal(run(&late, hang, NULL), -EIO);
}
