// SPDX-License-Identifier: BSD-2-Clause
/*
 * flees TIMES PROGRESS: calls traced functions in a loop. When a stub of xprof appears in its memory, executes itself
 * immediately, before sleds call the stub; TIMES times. Adds a byte to the file PROGRESS for each round; a wrong result
 * ends the program with status 3.
 */
#include <stdlib.h>

#include "stubs.h"

TRACED static unsigned long tree(unsigned long n)
{
	return n < 2 ? n : tree(n - 1) + tree(n - 2);
}

UNTRACED int main(int argc, char **argv)
{
	char left[16];
	int fd, times;

	if (argc < 3)
		return 2;
	times = atoi(argv[1]);
	fd = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		return 2;
	for (;;) {
		if (times && stubs()) {
			snprintf(left, sizeof(left), "%d", times - 1);
			argv[1] = left;
			execv("/proc/self/exe", argv);
		}
		if (tree(5) != 5 || write(fd, ".", 1) != 1)
			return 3;
		if (!times)
			usleep(500);
	}
}
