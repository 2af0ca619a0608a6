// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes many calls fast: an entry sled and a tail exit sled, which the kernel does not single-step. Arguments: threads,
 * calls of each. Prints the number of calls.
 */
#include <pthread.h>
#include <stdlib.h>

#include "go.h"

static long calls;

UNTRACED void not_traced(void)
{
	__asm__ volatile("");
}

TRACED static void hop(void)
{
	__asm__ volatile("");
	not_traced();
}

UNTRACED static void *thread(void *arg)
{
	for (long i = 0; i < calls; i++)
		hop();
	return arg;
}

UNTRACED int main(int argc, char **argv)
{
	int count = atoi(argv[argc - 2]);
	pthread_t *threads = calloc((size_t)count, sizeof(*threads));

	calls = atol(argv[argc - 1]);
	wait_for_go(argc, argv);
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, thread, NULL);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("calls hop %ld\n", count * calls);
	free(threads);
	return 0;
}
