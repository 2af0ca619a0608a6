// SPDX-License-Identifier: BSD-2-Clause
/* 20 000 functions, of which one is called each millisecond, until the end of standard input. */
#include <poll.h>

#include "many.h"

int main(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	unsigned int next = 0;
	int sum = 0;

	while (!poll(&input, 1, 1)) {
		sum += functions[next](sum);
		next = (next + 1) % (sizeof(functions) / sizeof(functions[0]));
	}
	return 0;
}
