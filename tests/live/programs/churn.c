// SPDX-License-Identifier: BSD-2-Clause
/*
 * churn WHAT PROGRESS [LIBRARY]: a process that keeps changing. WHAT: exec (executes itself), fork (children that work
 * and exit), threads (that start and exit), load (dlopen and dlclose of LIBRARY). Adds a byte to the file PROGRESS for
 * each correct generation. After an error, exits with status 3.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNTRACED __attribute__((xray_never_instrument, noinline))
#define TRACED __attribute__((noinline))

/* The compiler must not compute this once for all generations. */
TRACED unsigned long churn_tree(unsigned long n)
{
	__asm__ volatile("");
	return n < 2 ? n : churn_tree(n - 1) + churn_tree(n - 2);
}

#ifndef LIBRARY

#define EXPECTED 55

UNTRACED static void expect(int right)
{
	if (!right)
		_exit(3);
}

UNTRACED static void *in_thread(void *arg)
{
	(void)arg;
	return (void *)churn_tree(10);
}

UNTRACED static void with_threads(void)
{
	pthread_t threads[4];
	void *result;

	for (int i = 0; i < 4; i++)
		expect(!pthread_create(&threads[i], NULL, in_thread, NULL));
	for (int i = 0; i < 4; i++)
		expect(!pthread_join(threads[i], &result) && result == (void *)EXPECTED);
}

UNTRACED static void with_fork(void)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit((int)churn_tree(10));
	expect(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == EXPECTED);
}

UNTRACED static void with_library(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	unsigned long (*tree)(unsigned long) =
	    library ? (unsigned long (*)(unsigned long))dlsym(library, "churn_tree") : NULL;

	expect(tree && tree(10) == EXPECTED);
	expect(!dlclose(library));
}

UNTRACED int main(int argc, char **argv)
{
	int fd;

	if (argc < 3)
		return 2;
	fd = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		return 2;
	for (;;) {
		expect(churn_tree(10) == EXPECTED);
		if (!strcmp(argv[1], "fork"))
			with_fork();
		else if (!strcmp(argv[1], "threads"))
			with_threads();
		else if (!strcmp(argv[1], "load"))
			with_library(argv[3]);
		expect(write(fd, ".", 1) == 1);
		if (!strcmp(argv[1], "exec"))
			execv("/proc/self/exe", argv);
		usleep(500);
	}
}

#endif
