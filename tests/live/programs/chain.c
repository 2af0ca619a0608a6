// SPDX-License-Identifier: BSD-2-Clause
/*
 * chain MS CALLS [how PROGRAM ARG...]: waits until its sleds are recorded, at most MS, calls work() CALLS times, then
 * runs PROGRAM. how: exec (in this process), thread (the same, from a thread), fork, or spawn (vfork and exec). Exits
 * with the child's status. fork without PROGRAM: the child calls in_child() CALLS times.
 */
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "go.h"
#include "noticed.h"

extern char **environ;

static volatile long sink;

TRACED static void work(int n)
{
	sink += n;
}

TRACED static void in_child(int n)
{
	sink -= n;
}

UNTRACED static void *execute(void *arg)
{
	char **argv = arg;

	execv(argv[0], argv);
	perror(argv[0]);
	exit(1);
}

UNTRACED static int wait_for(pid_t child)
{
	int status = 0;

	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		fprintf(stderr, "the child was killed by signal %d\n", WTERMSIG(status));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

UNTRACED static int run(const char *how, char **argv, int calls)
{
	pthread_t thread;
	pid_t child = 0;

	if (!strcmp(how, "exec"))
		execute(argv);
	if (!strcmp(how, "thread")) {
		pthread_create(&thread, NULL, execute, argv);
		pause();
	}
	if (!strcmp(how, "spawn") && posix_spawn(&child, argv[0], NULL, NULL, argv, environ))
		return 1;
	if (!strcmp(how, "fork")) {
		child = fork();
		if (!child && argv[0])
			execute(argv);
		if (!child) {
			for (int i = 0; i < calls; i++)
				in_child(i);
			exit(0);
		}
	}
	return wait_for(child);
}

UNTRACED int main(int argc, char **argv)
{
	int first = argc > 1 && !strcmp(argv[1], "wait") ? 2 : 1;
	int calls = atoi(argv[first + 1]);

	wait_for_go(argc, argv);
	wait_until_noticed(atoi(argv[first]));
	for (int i = 0; i < calls; i++)
		work(i);
	return argc > first + 2 ? run(argv[first + 2], argv + first + 3, calls) : 0;
}
