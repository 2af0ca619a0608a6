// SPDX-License-Identifier: BSD-2-Clause
// shared [wait] MS LIBRARY: calls into a linked library, throws through it, and loads, uses and unloads another one.
// The use waits until the library is recorded, MS at most: xprof hears of it when it is loaded, and does not hold the
// program.
#include <dlfcn.h>
#include <stdlib.h>

#include "go.h"

extern "C" long needed_entry(int n);
extern "C" void needed_print(void);

static long calls_of_caller, calls_of_loaded_entry, calls_of_needed_entry;

extern "C" TRACED void caller(int n)
{
	COUNT(caller);
	COUNT(needed_entry);
	needed_entry(n);
}

UNTRACED static void load(const char *path, int ms)
{
	void *library = dlopen(path, RTLD_NOW);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	reinterpret_cast<void (*)(int)>(dlsym(library, "loaded_wait"))(ms);
	auto entry = reinterpret_cast<long (*)(int)>(dlsym(library, "loaded_entry"));
	for (int n = 0; n < 10; n++) {
		COUNT(loaded_entry);
		entry(n);
	}
	reinterpret_cast<void (*)()>(dlsym(library, "loaded_print"))();
	dlclose(library);
}

UNTRACED int main(int argc, char **argv)
{
	const char *loaded = argv[argc - 1];

	wait_for_go(argc, argv);
	for (int n = -1; n < 10; n++)
		try {
			caller(n);
		} catch (int) {
		}
	load(loaded, atoi(argv[argc - 2]));
	needed_print();
	PRINT_COUNT(caller);
	PRINT_COUNT(needed_entry);
	PRINT_COUNT(loaded_entry);
	return 0;
}
