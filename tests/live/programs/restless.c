// SPDX-License-Identifier: BSD-2-Clause
/*
 * restless wait [CALLS]: threads at full speed, threads that start and exit, a timer signal whose handler calls traced
 * functions anywhere, and children of vfork() and posix_spawn(). Counts its calls. CALLS: calls of each thread at full
 * speed.
 */
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "go.h"

#define WORKERS 4
#define CHILDREN 20
#define SHORT_THREADS 40

extern char **environ;
static long calls = 8000;
static long calls_of_leaf, calls_of_outer, calls_of_last, calls_of_in_handler, calls_of_in_thread;

TRACED static long leaf(long n)
{
	COUNT(leaf);
	return n * 7;
}

TRACED static long outer(long n)
{
	COUNT(outer);
	return leaf(n) + leaf(n + 1);
}

/* Ends with a jump. */
TRACED static long last(long n)
{
	COUNT(last);
	return outer(n + 1);
}

TRACED static void in_handler(int number)
{
	COUNT(in_handler);
	leaf(number);
}

/* In a child with its parent's memory and another PID: must not be recorded. */
TRACED static void in_child(void)
{
	__asm__ volatile("");
}

TRACED static void *in_thread(void *arg)
{
	COUNT(in_thread);
	return (void *)outer((long)arg);
}

UNTRACED static void on_alarm(int number)
{
	in_handler(number);
}

UNTRACED static void *worker(void *arg)
{
	for (long n = 0; n < calls; n++)
		if (last(n) != 7 * (n + 1) + 7 * (n + 2))
			abort();
	return arg;
}

UNTRACED static void expect_end(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		abort();
}

UNTRACED static void start_child(int n)
{
	char *argv[] = { "true", NULL };
	pid_t pid;

	if (n % 2) {
		pid = vfork();
		if (!pid) {
			in_child();
			_exit(0);
		}
	} else if (posix_spawnp(&pid, "true", NULL, NULL, argv, environ)) {
		abort();
	}
	expect_end(pid);
}

UNTRACED int main(int argc, char **argv)
{
	struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	pthread_t workers[WORKERS], thread;

	if (argc > 2)
		calls = atol(argv[2]);
	wait_for_go(argc, argv);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (long i = 0; i < WORKERS; i++)
		pthread_create(&workers[i], NULL, worker, NULL);
	for (long i = 0; i < SHORT_THREADS; i++) {
		if (pthread_create(&thread, NULL, in_thread, (void *)i) || pthread_join(thread, NULL))
			abort();
		if (i % (SHORT_THREADS / CHILDREN) == 0)
			start_child((int)i / (SHORT_THREADS / CHILDREN));
	}
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	PRINT_COUNT(leaf);
	PRINT_COUNT(outer);
	PRINT_COUNT(last);
	PRINT_COUNT(in_handler);
	PRINT_COUNT(in_thread);
	return 0;
}
