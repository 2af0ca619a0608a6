/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work of known shares: three quarters of the time below work_a(), one quarter below work_b(), in `threads` threads,
 * for about `seconds` each. Prints its PID, the CPU time that the kernel charged, the part of it in pauses, and how
 * long the first thread ran. shares SECONDS [THREADS [wait]]: with wait, starts when it gets a line on its input.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

/* A round of work takes 0.3 to 0.9 ms, on a slow machine several times as long. */
#define ROUND_MAX_S 0.005
#define THREADS_MAX 64

static volatile unsigned long sink;
static double seconds;

/*
 * A chain of multiplications takes the same time in each iteration. Adding to memory does not: on some CPUs it is fast
 * until an interrupt, and slow from then to the end of the loop, so sampling would lengthen the sampled code.
 */
NOINLINE static void spin(long count)
{
	unsigned long x = sink;

	for (long i = 0; i < count; i++)
		x = x * 6364136223846793005ul + i;
	sink = x;
}

NOINLINE static void work_a(long part)
{
	spin(3 * part);
	__asm__ volatile("");
}

NOINLINE static void work_b(long part)
{
	spin(part);
	__asm__ volatile("");
}

static double cpu_time(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/*
 * If a hypervisor takes the CPU away without reporting it, the kernel charges the pause to the thread, but a sampler
 * takes only one sample. So the excess time of a round counts as a pause.
 */
NOINLINE static void *worker(void *arg)
{
	double *paused = arg, before, now = cpu_time(CLOCK_THREAD_CPUTIME_ID);
	double begin = now; /* not the start of the program, which takes milliseconds on some machines */
	unsigned int random = 1;

	while (now - begin - *paused < seconds) {
		/*
		 * Rounds of the same length could be in step with the samples, which would then hit the same parts of
		 * many rounds.
		 */
		long part = 50000 + (random >> 16) % 1000 * 100;

		random = random * 1664525u + 1013904223u;
		work_a(part);
		work_b(part);
		before = now;
		now = cpu_time(CLOCK_THREAD_CPUTIME_ID);
		if (now - before > ROUND_MAX_S)
			*paused += now - before - ROUND_MAX_S;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[2]) : 1;
	pthread_t ids[THREADS_MAX];
	double paused[THREADS_MAX] = { 0 }, first;

	seconds = atof(argv[1]);
	if (argc > 3) {
		printf("waiting\n");
		fflush(stdout);
		getchar();
	}
	for (int i = 1; i < threads; i++)
		pthread_create(&ids[i], NULL, worker, &paused[i]);
	worker(&paused[0]);
	first = cpu_time(CLOCK_THREAD_CPUTIME_ID) - paused[0];
	for (int i = 1; i < threads; i++) {
		pthread_join(ids[i], NULL);
		paused[0] += paused[i];
	}
	printf("pid %d\n", getpid());
	printf("cpu %.4f\n", cpu_time(CLOCK_PROCESS_CPUTIME_ID));
	printf("paused %.4f\n", paused[0]);
	printf("first %.4f\n", first);
	return 0;
}
