// SPDX-License-Identifier: BSD-2-Clause
/*
 * forks [wait] CHILDREN CALLS LIBRARY: calls work() CALLS times, then forks CHILDREN, one after the other. Each child
 * calls work() as often, as do a thread and a child of each child. A last child outlives the program by more than a
 * second, loads LIBRARY and, when the library's sleds are patched, calls its loaded_entry(), and work(), CALLS times.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "go.h"

#define OUTLIVES_US 1500000
#define PATCHED_MS 5000

static int calls;
static volatile long sink;

TRACED static void work(int n)
{
	sink += n;
}

UNTRACED static void work_all(void)
{
	for (int i = 0; i < calls; i++)
		work(i);
}

UNTRACED static void *in_thread(void *arg)
{
	work_all();
	return arg;
}

UNTRACED static void wait_for(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child || status)
		_exit(3);
}

UNTRACED static void serve(void)
{
	pthread_t thread;
	pid_t child;

	work_all();
	if (pthread_create(&thread, NULL, in_thread, NULL) || pthread_join(thread, NULL))
		_exit(3);
	child = fork();
	if (!child) {
		work_all();
		_exit(0);
	}
	wait_for(child);
	_exit(0);
}

UNTRACED static void outlive(const char *path)
{
	void *library;
	long (*entry)(int);

	usleep(OUTLIVES_US);
	library = dlopen(path, RTLD_NOW);
	entry = library ? (long (*)(int))dlsym(library, "loaded_entry") : NULL;
	if (!entry)
		_exit(3);
	for (int ms = 0; ms < PATCHED_MS && *(const volatile unsigned char *)entry != 0x41; ms++)
		usleep(1000);
	/* By then, all sleds are patched. */
	usleep(200000);
	for (int i = 0; i < calls; i++)
		entry(i % 3);
	work_all();
	_exit(0);
}

UNTRACED int main(int argc, char **argv)
{
	int children = atoi(argv[argc - 3]);

	calls = atoi(argv[argc - 2]);
	wait_for_go(argc, argv);
	work_all();
	for (int i = 0; i < children; i++) {
		pid_t child = fork();

		if (!child)
			serve();
		wait_for(child);
	}
	if (!fork())
		outlive(argv[argc - 1]);
	return 0;
}
