/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/shield.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/util.h"

#define STACK_BYTES (256u << 10)
/* Of xp_shielded_each(). */
#define HELPERS_MAX 15
#define HELPER_STACK_BYTES (64u << 10)

struct shielded {
	int (*work)(void *arg);
	void *arg;
	int result;
};

static int task(void *arg)
{
	struct shielded *shielded = arg;

	/* Keeps out of reach of signals to xprof's process group or to all processes of that name. */
	setsid();
	prctl(PR_SET_NAME, "probes");
	shielded->result = shielded->work(shielded->arg);
	return 0;
}

int xp_shielded(int (*work)(void *arg), void *arg)
{
	struct shielded shielded = { work, arg, -ECHILD };
	sigset_t all, before;
	char *stack;
	pid_t pid;

	stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return -errno;
	sigfillset(&all);
	sigdelset(&all, SIGBUS); /* shared_pages.h */
	sigprocmask(SIG_SETMASK, &all, &before);
	/*
	 * The task sends no signal when it ends: SIGCHLD is for the command. CLONE_VFORK: the caller sleeps until then.
	 */
	pid = clone(task, stack + STACK_BYTES, CLONE_VM | CLONE_FILES | CLONE_VFORK, &shielded);
	if (pid < 0)
		shielded.result = -errno;
	else
		while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
			;
	sigprocmask(SIG_SETMASK, &before, NULL);
	munmap(stack, STACK_BYTES);
	return shielded.result;
}

struct shared_work {
	void (*work)(void *arg, size_t i);
	void *arg;
	size_t count;
	size_t next; /* atomic */
};

static int help(void *arg)
{
	struct shared_work *shared = arg;
	size_t i;

	while ((i = __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED)) < shared->count)
		shared->work(shared->arg, i);
	return 0;
}

/* Works together with as many helpers as there may be. Their stacks lie above `shared`. */
static void work_together(struct shared_work *shared, size_t wanted)
{
	char *stack = (char *)shared + HELPER_STACK_BYTES;
	pid_t pids[HELPERS_MAX];
	size_t helpers = 0;

	for (; helpers < wanted; helpers++) {
		stack += HELPER_STACK_BYTES;
		pids[helpers] = clone(help, stack, CLONE_VM | CLONE_FILES, shared);
		if (pids[helpers] < 0)
			break;
	}
	help(shared);
	for (size_t i = 0; i < helpers; i++)
		while (waitpid(pids[i], NULL, __WCLONE) < 0 && errno == EINTR)
			;
}

void xp_shielded_each(void (*work)(void *arg, size_t i), void *arg, size_t count)
{
	struct shared_work alone = { work, arg, count, 0 };
	size_t wanted = XP_MIN(count ? count - 1 : 0, (size_t)HELPERS_MAX);
	size_t bytes = (wanted + 1) * HELPER_STACK_BYTES;
	struct shared_work *shared = MAP_FAILED;
	sigset_t all, before;

	/* Not on this stack, which goes away if only this task is killed: the helpers then go on. */
	if (wanted)
		shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (shared == MAP_FAILED) {
		help(&alone);
		return;
	}
	*shared = alone;
	/* A helper that handled a signal would do so in the caller's memory. */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigprocmask(SIG_SETMASK, &all, &before);
	work_together(shared, wanted);
	sigprocmask(SIG_SETMASK, &before, NULL);
	munmap(shared, bytes);
}
