/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/shield.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define STACK_BYTES (256u << 10)

struct shielded {
	int (*work)(void *arg);
	void *arg;
	int result;
};

static int task(void *arg)
{
	struct shielded *shielded = arg;

	/* Avoids signals to xprof's process group or to all processes named xprof. */
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
	sigdelset(&all, SIGBUS); /* shared_pages.h handles SIGBUS */
	sigprocmask(SIG_SETMASK, &all, &before);
	/*
	 * The task sends no signal when it ends, because xprof uses SIGCHLD for the command. With CLONE_VFORK, the
	 * caller sleeps until the task ends.
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
