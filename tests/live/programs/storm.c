// SPDX-License-Identifier: BSD-2-Clause
/*
 * storm [wait] CHILDREN CALLS: forks CHILDREN, four at a time. Each calls work() CALLS times; then some of them create
 * a thread or a child that does the same, change their user first, kill themselves, or execute another program. Prints
 * the calls of all.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "go.h"

#define AT_A_TIME 4
#define NOBODY 65534

static long *counted; /* shared by all */
static int calls;
static volatile long sink;

TRACED static void work(int n)
{
	sink += n;
}

UNTRACED static void work_all(void)
{
	for (int i = 0; i < calls; i++) {
		__atomic_add_fetch(counted, 1, __ATOMIC_RELAXED);
		work(i);
	}
}

UNTRACED static void *in_thread(void *arg)
{
	work_all();
	return arg;
}

UNTRACED static void in_child(int number)
{
	pthread_t thread;
	pid_t child;

	if (number % 10 == 1 && setuid(NOBODY))
		_exit(3);
	work_all();
	switch (number % 10) {
	case 2:
		if (pthread_create(&thread, NULL, in_thread, NULL) || pthread_join(thread, NULL))
			_exit(3);
		break;
	case 3:
		child = fork();
		if (!child)
			work_all();
		else
			waitpid(child, NULL, 0);
		break;
	case 4:
		raise(SIGKILL);
		break;
	case 5:
		execl("/bin/true", "true", NULL);
		break;
	default:
		break;
	}
	_exit(0);
}

UNTRACED int main(int argc, char **argv)
{
	int children = atoi(argv[argc - 2]), live = 0;

	calls = atoi(argv[argc - 1]);
	counted = mmap(NULL, sizeof(*counted), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counted == MAP_FAILED)
		return 3;
	wait_for_go(argc, argv);
	for (int i = 0; i < children; i++) {
		if (live == AT_A_TIME && waitpid(-1, NULL, 0) > 0)
			live--;
		if (!fork())
			in_child(i);
		live++;
	}
	while (waitpid(-1, NULL, 0) > 0)
		;
	printf("calls work %ld\n", *counted);
	return 0;
}
