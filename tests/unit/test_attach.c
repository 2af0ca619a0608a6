/* SPDX-License-Identifier: BSD-2-Clause */
/* Attaches in batches in a fake kernel: see syscall(). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/interrupt.h"
#include "base/release.h"
#include "base/util.h"
#include "kernel/attach.h"
#include "target/target.h"

#define PROBES 100000u
#define LINKS_MAX 1024

static struct {
	unsigned int links;
	unsigned int probes;
	unsigned int most; /* per link */
	unsigned int busy; /* number of links that are refused from now on */
	unsigned int refused;
	unsigned int end_after; /* number of links; 0: never */
	int (*end)(void);
	uint64_t first[LINKS_MAX]; /* offset of each link */
} kernel;

/* The closed links, in order, and how many were closed at the same time. */
static struct {
	bool watched;
	unsigned int most, closed;
	int fds[16];
} closing;

/* Replaces the function of release.c. */
void xp_release_files(const int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (closing.watched)
			closing.fds[closing.closed++ % 16] = fds[i];
		close(fds[i]);
	}
	closing.most = XP_MAX(closing.most, (unsigned int)count);
}

/* Replaces libc's syscall(): links are files that do nothing. */
long syscall(long number, ...)
{
	struct {
		uint32_t program_fd, target_fd, type, flags;
		uint64_t path, offsets, ref_ctr_offsets, cookies;
		uint32_t count;
	} attr;
	va_list list;
	const void *from;

	va_start(list, number);
	if (number != __NR_bpf) {
		va_end(list);
		return 0;
	}
	assert_int_equal(va_arg(list, int), BPF_LINK_CREATE);
	from = va_arg(list, const void *);
	va_end(list);
	memcpy(&attr, from, sizeof(attr));
	if (kernel.busy) {
		kernel.busy--;
		kernel.refused++;
		errno = EBUSY;
		return -1;
	}
	memcpy(&kernel.first[kernel.links % LINKS_MAX], (const void *)(uintptr_t)attr.offsets, sizeof(uint64_t));
	kernel.links++;
	kernel.probes += attr.count;
	kernel.most = XP_MAX(kernel.most, attr.count);
	if (kernel.end_after && kernel.links == kernel.end_after)
		kernel.end();
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static unsigned int open_files(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < 2048; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static int attach_many(struct xp_attach *attach, pid_t pid, size_t count)
{
	struct xp_uprobe *probes = calloc(count, sizeof(*probes));
	int err;

	for (size_t i = 0; i < count; i++)
		probes[i].offset = i;
	err = xp_attach_uprobes(attach, &(struct xp_uprobe_set){ .pid = pid, .list = probes, .count = count });

	free(probes);
	return err;
}

TEST(test_batches)
{
	struct xp_attach *attach;
	unsigned int files = open_files();

	memset(&kernel, 0, sizeof(kernel));
	assert_int_equal(xp_attach_new(&attach, true), 0);
	assert_int_equal(attach_many(attach, getpid(), PROBES), 0);
	assert_int_equal(kernel.probes, PROBES);
	assert_true(kernel.most <= 16384);
	assert_int_equal(open_files(), files + kernel.links);
	assert_int_equal(xp_attach_room(attach), XP_ATTACH_MAX - PROBES);
	assert_int_equal(attach_many(attach, getpid(), XP_ATTACH_MAX - PROBES + 1), -ENOBUFS);
	xp_attach_detach_all(attach);
	assert_int_equal(open_files(), files);
	assert_int_equal(xp_attach_room(attach), XP_ATTACH_MAX);
	xp_attach_free(attach);
}

/* xprof asks a busy kernel again, but not endlessly. */
TEST(test_busy)
{
	unsigned int files = open_files();
	struct xp_attach *attach;

	memset(&kernel, 0, sizeof(kernel));
	assert_int_equal(xp_attach_new(&attach, true), 0);
	kernel.busy = 3;
	assert_int_equal(attach_many(attach, getpid(), 1), 0);
	assert_int_equal(kernel.refused, 3);
	kernel.busy = UINT_MAX;
	assert_int_equal(attach_many(attach, getpid(), 1), -EBUSY);
	assert_true(kernel.refused > 4);
	xp_attach_free(attach);
	assert_int_equal(open_files(), files);
}

/* Detaches all links, this many at the same time. */
static void watch_detach(struct xp_attach *attach, unsigned int most)
{
	memset(&closing, 0, sizeof(closing));
	closing.watched = true;
	xp_attach_detach_all(attach);
	closing.watched = false;
	assert_int_equal(closing.most, most);
}

/* The anchors of processes are detached at the same time, and no task remains. */
TEST(test_anchors)
{
	struct xp_attach *attach;
	unsigned int files = open_files();

	memset(&kernel, 0, sizeof(kernel));
	assert_int_equal(xp_attach_new(&attach, true), 0);
	for (pid_t pid = 1; pid <= 37; pid++)
		assert_int_equal(xp_attach_uprobe(attach, -1, -1, pid, 0), 0);
	watch_detach(attach, 16);
	assert_int_equal(closing.closed, 37);
	assert_int_equal(open_files(), files);
	assert_int_equal(waitpid(-1, NULL, __WALL), -1);
	assert_int_equal(errno, ECHILD);
	xp_attach_free(attach);
}

/* Probes of one process are detached at the same time if it is xprof's own process. */
TEST(test_own_probes)
{
	struct xp_attach *attach;

	memset(&kernel, 0, sizeof(kernel));
	assert_int_equal(xp_attach_new(&attach, true), 0);
	for (uint64_t offset = 0; offset < 5; offset++)
		assert_int_equal(xp_attach_own_uprobe(attach, -1, -1, getpid(), offset), 0);
	watch_detach(attach, 5);
	assert_int_equal(closing.closed, 5);
	xp_attach_free(attach);
}

/* Probes are detached at the same time, then anchors of no process, and last the anchors of processes. */
TEST(test_order)
{
	const struct xp_uprobe probe = { .offset = 0 };
	const struct xp_uprobe_set extra = { .pid = getpid(), .list = &probe, .count = 1, .anchor = true };
	struct xp_attach *attach;

	memset(&kernel, 0, sizeof(kernel));
	assert_int_equal(xp_attach_new(&attach, true), 0);
	for (int i = 0; i < 6; i++)
		assert_int_equal(xp_attach_uprobe(attach, -1, -1, getpid(), (uint64_t)i), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(xp_attach_uprobes(attach, &extra), 0);
	watch_detach(attach, 5);
	assert_int_equal(closing.closed, 11);
	for (int i = 0; i < 11; i++)
		assert_int_equal(closing.fds[i] >= 512, i < 5);
	for (int i = 5; i < 10; i++)
		assert_true(closing.fds[i] > closing.fds[10]);
	xp_attach_free(attach);
}

static size_t descriptor_room(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[128];
	size_t room = 0;

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "FDSize: %zu", &room);
	if (file)
		fclose(file);
	return room;
}

/* The table of descriptors is extended before tasks share it. A child starts with a short table. */
TEST(test_descriptors)
{
	struct xp_attach *attach;
	int status;
	pid_t pid = fork();

	if (!pid) {
		size_t before = descriptor_room();
		int err = xp_attach_new(&attach, true);

		_exit(err || before > 512 || descriptor_room() <= 512);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

TEST(test_batch_size)
{
	uint32_t batch = 4096;

	assert_int_equal(xp_attach_batch(batch, 60000000), batch);
	for (int i = 0; i < 20; i++)
		batch = xp_attach_batch(batch, 200000000);
	assert_int_equal(batch, 256);
	for (int i = 0; i < 20; i++)
		batch = xp_attach_batch(batch, 1000000);
	assert_int_equal(batch, 16384);
}

/* Runs in a separate process, because signals stay pending. After xprof gave up, no link remains. */
static int give_up(int (*end)(void), pid_t pid)
{
	struct xp_attach *attach;
	unsigned int files;
	sigset_t all;
	int err;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	memset(&kernel, 0, sizeof(kernel));
	kernel.end_after = 2;
	kernel.end = end;
	xp_interrupt_init(true, true);
	files = open_files();
	xp_attach_new(&attach, true);
	err = attach_many(attach, pid, PROBES);
	if (kernel.links != 2 || open_files() != files || xp_attach_room(attach) != XP_ATTACH_MAX)
		return 1;
	return -err;
}

static int in_child(int (*end)(void), pid_t target)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(give_up(end, target));
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int interrupt(void)
{
	return kill(getppid(), SIGINT); /* from the attaching task, a child of xprof */
}

static int pass_deadline(void)
{
	xp_interrupt_set_deadline(1);
	return 0;
}

TEST(test_interrupted)
{
	assert_int_equal(in_child(interrupt, 0), ECANCELED);
	assert_int_equal(in_child(pass_deadline, 0), ECANCELED);
}

static int kill_task(void)
{
	return kill(getpid(), SIGKILL); /* the attaching task */
}

/* After the attaching task was killed, probes are attached again where it may have left breakpoints, and detached. */
TEST(test_task_killed)
{
	unsigned int files = open_files();
	struct xp_attach *attach;

	memset(&kernel, 0, sizeof(kernel));
	kernel.end_after = 2;
	kernel.end = kill_task;
	assert_int_equal(xp_attach_new(&attach, true), 0);
	assert_int_equal(attach_many(attach, getpid(), PROBES), -EINTR);
	assert_int_equal(kernel.links, 3);
	assert_true(kernel.first[1] > kernel.first[0]);
	assert_int_equal(kernel.first[2], kernel.first[1]);
	assert_int_equal(open_files(), files);
	assert_int_equal(xp_attach_room(attach), XP_ATTACH_MAX);
	xp_attach_free(attach);
}

static pid_t victim;

static int end_target(void)
{
	kill(victim, SIGKILL);
	while (xp_target_start_time(victim))
		usleep(1000);
	return 0;
}

TEST(test_target_ends)
{
	victim = fork();
	if (!victim) {
		pause();
		_exit(0);
	}
	assert_int_equal(in_child(end_target, victim), ESRCH);
	waitpid(victim, NULL, 0);
}
