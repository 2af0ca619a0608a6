// SPDX-License-Identifier: BSD-2-Clause
/*
 * unloads LIBRARY LIBRARY: loads both, writes "ready", and unloads the library at the lower address when a second stub
 * of xprof appears in its memory. (The first stub is for the program itself, which must be linked at fixed addresses.)
 * Then calls loaded_entry() of the other library in a loop, and writes "unloaded" at first, and "called" after 300
 * calls since SIGUSR1.
 */
#include <dlfcn.h>

#include "stubs.h"

static volatile sig_atomic_t to_call;

UNTRACED static void go(int number)
{
	(void)number;
	to_call = 300;
}

int main(int argc, char **argv)
{
	void *libraries[2], *entries[2];
	int lower;

	for (int i = 0; i < 2; i++) {
		libraries[i] = argc == 3 ? dlopen(argv[i + 1], RTLD_NOW) : NULL;
		entries[i] = libraries[i] ? dlsym(libraries[i], "loaded_entry") : NULL;
		if (!entries[i])
			return 2;
	}
	lower = entries[1] < entries[0];
	signal(SIGUSR1, go);
	puts("ready");
	fflush(stdout);
	while (stubs() < 2)
		;
	dlclose(libraries[lower]);
	puts("unloaded");
	fflush(stdout);
	for (;; usleep(1000)) {
		((long (*)(int))entries[!lower])(1);
		if (to_call && !--to_call) {
			puts("called");
			fflush(stdout);
		}
	}
}
