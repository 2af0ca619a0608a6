/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * brief children|threads COUNT: starts children or threads one after the other. Each works for at least 0.6 ms. Prints
 * the CPU time that the kernel charged to all of them, and how much of it were pauses.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORK_S 0.0006
/* A longer time contains a pause of a hypervisor, which is charged but sampled only once. */
#define LOOK_MAX_S 0.005

static double *paused; /* shared with the children */

static double cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void *work(void *arg)
{
	double begin = cpu_time(), before, now = begin;

	while (now - begin < WORK_S) {
		before = now;
		now = cpu_time();
		if (now - before > LOOK_MAX_S)
			*paused += now - before;
	}
	return arg;
}

static double seconds(const struct rusage *usage)
{
	return usage->ru_utime.tv_sec + usage->ru_stime.tv_sec +
	       (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
	struct rusage own, children;
	pthread_t thread;
	pid_t child;

	paused = mmap(NULL, sizeof(*paused), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (argc < 3 || paused == MAP_FAILED)
		return 1;
	for (int i = 0; i < atoi(argv[2]); i++) {
		if (!strcmp(argv[1], "threads")) {
			if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL))
				return 1;
			continue;
		}
		child = fork();
		if (!child) {
			work(NULL);
			_exit(0);
		}
		if (child < 0 || waitpid(child, NULL, 0) != child)
			return 1;
	}
	getrusage(RUSAGE_SELF, &own);
	getrusage(RUSAGE_CHILDREN, &children);
	printf("cpu %.4f\n", seconds(&own) + seconds(&children));
	printf("paused %.4f\n", *paused);
	return 0;
}
