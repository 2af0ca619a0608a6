// SPDX-License-Identifier: BSD-2-Clause
/*
 * reload [wait] [each|once] MS LIBRARY: loads, uses and unloads the library many times; its first use waits until it is
 * recorded, MS at most. With "each", MS is the time before each use, of which there are fewer, and begins when the
 * library is patched; with "once", there is one, and MS is the time after it.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "go.h"

static long calls_of_loaded_entry, calls_of_own;

TRACED static void own(void)
{
	COUNT(own);
}

/* Returns whether the first sled of a function was patched from outside: it then starts with this byte. */
UNTRACED static int is_patched(const void *function)
{
	return *(const volatile unsigned char *)function == 0x41;
}

UNTRACED int main(int argc, char **argv)
{
	int each = argc > 3 && !strcmp(argv[argc - 3], "each"), once = argc > 3 && !strcmp(argv[argc - 3], "once");
	int ms = atoi(argv[argc - 2]);

	wait_for_go(argc, argv);
	for (int round = 0; round < (each ? 4 : once ? 1 : 20); round++) {
		void *library = dlopen(argv[argc - 1], RTLD_NOW);
		long (*entry)(int) = library ? (long (*)(int))dlsym(library, "loaded_entry") : NULL;

		if (!entry)
			return 1;
		while (each && !is_patched((const void *)entry))
			usleep(1000);
		if (each)
			usleep((useconds_t)ms * 1000);
		else if (!once && !round)
			((void (*)(int))dlsym(library, "loaded_wait"))(ms);
		for (int n = 0; n < 5; n++) {
			COUNT(loaded_entry);
			entry(n);
		}
		own();
		dlclose(library);
	}
	if (once)
		usleep((useconds_t)ms * 1000);
	PRINT_COUNT(loaded_entry);
	PRINT_COUNT(own);
	return 0;
}
