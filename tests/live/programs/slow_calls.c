// SPDX-License-Identifier: BSD-2-Clause
/*
 * A server of which some requests are slow. Arguments: wait, requests, and for each slow one its number and its
 * milliseconds: slow_calls wait 5000 3000:60 3001:60. main() and serve() are open all the while; handle_request() calls
 */
#include <stdlib.h>
#include <time.h>

#include "go.h"

TRACED static void parse(unsigned int request)
{
	__asm__ volatile("" : : "r"(request));
}

TRACED static void slow_part(unsigned int ms)
{
	const struct timespec pause = { ms / 1000, ms % 1000 * 1000000l };

	nanosleep(&pause, NULL);
	__asm__ volatile("");
}

TRACED static void handle_request(unsigned int request, unsigned int ms)
{
	parse(request);
	if (ms)
		slow_part(ms);
	__asm__ volatile("");
}

TRACED static void serve(unsigned int requests, int slow, char **how)
{
	for (unsigned int i = 0; i < requests; i++) {
		unsigned int ms = 0;

		for (int j = 0; j < slow; j++)
			if (strtoul(how[j], NULL, 10) == i)
				ms = strtoul(strchr(how[j], ':') + 1, NULL, 10);
		handle_request(i, ms);
	}
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	wait_for_go(argc, argv);
	serve(strtoul(argv[2], NULL, 10), argc - 3, argv + 3);
	wait_for_go(argc, argv);
	return 0;
}
