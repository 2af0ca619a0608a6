/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/release.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"

#define STACK_BYTES (64u << 10)
/* A holder that is stopped or gets no CPU closes its file later. */
#define READY_MS 5000

/*
 * A task that keeps one file open until the caller closes `ours` or ends. The task shuts down `its` when it is ready.
 */
struct holder {
	int fd;
	int ours, its; /* a socket pair */
	pid_t pid;
};

/* Runs in the holder, which shares memory with the caller: makes only system calls. */
static int hold(void *arg)
{
	const struct holder *holder = arg;
	struct pollfd end = { .fd = holder->its };
	unsigned int low = (unsigned int)XP_MIN(holder->fd, holder->its);
	unsigned int high = (unsigned int)XP_MAX(holder->fd, holder->its);

	/* Avoids signals to xprof's process group or to all processes named xprof. */
	setsid();
	prctl(PR_SET_NAME, "probes");
	if (close_range(high + 1, ~0u, 0) || (high > low + 1 && close_range(low + 1, high - 1, 0)) ||
	    (low && close_range(0, low - 1, 0)))
		return 1;
	shutdown(holder->its, SHUT_WR);
	poll(&end, 1, -1);
	return 0;
}

/* Creates the task. On failure, holder->pid stays -1. */
static void start(struct holder *holder, char *stack, int fd)
{
	int ends[2];

	*holder = (struct holder){ .fd = fd, .pid = -1 };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return;
	holder->ours = ends[0];
	holder->its = ends[1];
	holder->pid = clone(hold, stack + STACK_BYTES, CLONE_VM, holder);
	close(ends[1]);
	if (holder->pid < 0)
		close(ends[0]);
}

/* Waits until the holder has closed all other descriptors of the caller, or has ended. */
static void wait_until_ready(const struct holder *holder)
{
	struct pollfd ready = { .fd = holder->ours, .events = POLLIN };

	if (holder->pid > 0)
		poll(&ready, 1, READY_MS);
}

static void finish(const struct holder *holder)
{
	if (holder->pid < 0)
		return;
	while (waitpid(holder->pid, NULL, __WCLONE) < 0 && errno == EINTR)
		;
}

/* `memory` contains the array of holders, followed by their stacks. */
static void release(const int *fds, size_t count, char *memory)
{
	struct holder *holders = (struct holder *)memory;

	for (size_t i = 0; i < count; i++)
		start(&holders[i], memory + (i + 1) * STACK_BYTES, fds[i]);
	for (size_t i = 0; i < count; i++)
		wait_until_ready(&holders[i]);
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
	for (size_t i = 0; i < count; i++)
		if (holders[i].pid > 0)
			close(holders[i].ours);
	for (size_t i = 0; i < count; i++)
		finish(&holders[i]);
}

static void release_some(const int *fds, size_t count)
{
	size_t bytes = (count + 1) * STACK_BYTES;
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (memory != MAP_FAILED) {
		release(fds, count, memory);
		munmap(memory, bytes);
		return;
	}
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
}

void xp_release_files(const int *fds, size_t count)
{
	sigset_t all, before;

	/* A holder would run a signal handler in the caller's memory. */
	sigfillset(&all);
	sigdelset(&all, SIGBUS); /* shared_pages.h handles SIGBUS */
	sigprocmask(SIG_SETMASK, &all, &before);
	for (size_t i = 0; i < count; i += XP_RELEASED_TOGETHER)
		release_some(fds + i, XP_MIN(count - i, (size_t)XP_RELEASED_TOGETHER));
	sigprocmask(SIG_SETMASK, &before, NULL);
}
