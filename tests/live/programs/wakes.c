// SPDX-License-Identifier: BSD-2-Clause
/* Two threads that only wake each other, until the input ends. */
#include <pthread.h>
#include <poll.h>
#include <unistd.h>

static int there[2], back[2];

static void *answer(void *arg)
{
	char byte;

	while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
		;
	return arg;
}

int main(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	pthread_t thread;
	char byte = 0;

	if (pipe(there) || pipe(back) || pthread_create(&thread, NULL, answer, NULL) || write(1, "ready\n", 6) != 6)
		return 1;
	for (unsigned int turn = 0; turn % 256 || !poll(&input, 1, 0); turn++)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			return 1;
	return 0;
}
