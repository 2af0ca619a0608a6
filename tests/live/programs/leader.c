// SPDX-License-Identifier: BSD-2-Clause
/* The first thread exits; another one continues and ends the process. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "go.h"

static volatile long sink;

TRACED static void work(int n)
{
	sink += n;
}

UNTRACED static void *thread(void *arg)
{
	usleep(300000);
	for (int i = 0; i < 100; i++)
		work(i);
	exit(arg != NULL);
}

UNTRACED int main(int argc, char **argv)
{
	pthread_t one;

	wait_for_go(argc, argv);
	pthread_create(&one, NULL, thread, NULL);
	pthread_exit(NULL);
}
