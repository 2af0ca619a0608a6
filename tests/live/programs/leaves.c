// SPDX-License-Identifier: BSD-2-Clause
/*
 * leaves wait: a thread stays in hot() until its exit is restored, and then exits, while another thread calls hot() so
 * often that a budget throttles it.
 */
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "go.h"

#define ENTRY_SLED_BYTES 11
#define RET 0xc3 /* hot() must have this byte only once */

static const volatile uint8_t *exit_sled;
static volatile uint8_t restored;
static volatile int inside, over;

TRACED static void hot(int stays)
{
	if (!stays)
		return;
	inside = 1;
	while (*exit_sled != restored)
		;
}

UNTRACED static void *leave(void *arg)
{
	hot(1);
	over = 1;
	return arg;
}

UNTRACED static void *call(void *arg)
{
	while (!over) {
		for (int i = 0; i < 2000; i++)
			hot(0);
		usleep(1000);
	}
	return arg;
}

UNTRACED int main(int argc, char **argv)
{
	pthread_t leaving, calling;

	exit_sled = (const uint8_t *)hot + ENTRY_SLED_BYTES;
	while (*exit_sled != RET)
		exit_sled++;
	restored = RET;
	wait_for_go(argc, argv);
	pthread_create(&leaving, NULL, leave, NULL);
	while (!inside)
		usleep(100);
	pthread_create(&calling, NULL, call, NULL);
	pthread_join(leaving, NULL);
	pthread_join(calling, NULL);
	return *exit_sled != RET;
}
