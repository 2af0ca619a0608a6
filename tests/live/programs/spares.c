// SPDX-License-Identifier: BSD-2-Clause
/*
 * A target that is near a limit of its memory, and uses the rest of it at SIGUSR1. Prints "taken" if it got all of it,
 * and exits. Usage, as root, whose rights it drops: spares LIMIT.
 *
 * address: RLIMIT_AS leaves 96 MiB, of which it uses 88.
 * locked: it locks its mappings, and RLIMIT_MEMLOCK leaves 1 MiB, of which it uses 1 MiB - 8 KiB.
 * holes: no limit; it maps a page after each of its stubs, and continues.
 * mappings: vm.max_map_count leaves 500 mappings, of which it uses 490.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB (1ul << 20)
#define UNTRACED __attribute__((xray_never_instrument, noinline))

static volatile sig_atomic_t asked;

__attribute__((noinline)) int work(int value)
{
	__asm__ volatile("");
	return value + 1;
}

UNTRACED static void ask(int number)
{
	(void)number;
	asked = 1;
}

UNTRACED static unsigned long field(const char *name)
{
	unsigned long value = 0;
	char line[256];
	FILE *file = fopen("/proc/self/status", "re");

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			value = strtoul(line + strlen(name), NULL, 10);
	fclose(file);
	return value << 10;
}

UNTRACED static void limit(int resource, const char *name, unsigned long bytes)
{
	const struct rlimit left = { field(name) + bytes, field(name) + bytes };

	if (setrlimit(resource, &left))
		exit(2);
}

/* Creates mappings that the kernel does not join. */
UNTRACED static int take(size_t count, size_t bytes)
{
	for (size_t i = 0; i < count; i++)
		if (mmap(NULL, bytes, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
		    MAP_FAILED)
			return 1;
	return 0;
}

UNTRACED static size_t mappings_left(void)
{
	FILE *max = fopen("/proc/sys/vm/max_map_count", "re"), *maps = fopen("/proc/self/maps", "re");
	size_t left = 0;

	if (!max || !maps || fscanf(max, "%zu", &left) != 1)
		exit(2);
	for (int byte; (byte = fgetc(maps)) != EOF;)
		left -= byte == '\n';
	fclose(max);
	fclose(maps);
	return left;
}

/* Maps pages where the call rings of an earlier recording were. */
UNTRACED static int take_holes(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, " r-xp ") && strstr(line, "/memfd:xprof ") && sscanf(line, "%lx", &start) == 1)
			mmap((void *)(start + 0xa000), 4096, PROT_READ,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	fclose(maps);
	puts("taken");
	fflush(stdout);
	return 0;
}

UNTRACED int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int count = 0, failed;

	signal(SIGUSR1, ask);
	if (!strcmp(what, "locked"))
		limit(RLIMIT_MEMLOCK, "VmLck:", MIB);
	if (setresuid(65534, 65534, 65534))
		return 2;
	if (!strcmp(what, "locked") && mlockall(MCL_FUTURE))
		return 2;
	if (!strcmp(what, "address"))
		limit(RLIMIT_AS, "VmSize:", 96 * MIB);
	if (!strcmp(what, "mappings") && take(mappings_left() - 500, 4096))
		return 2;
	puts("ready");
	fflush(stdout);
	while (!asked) {
		count = work(count);
		usleep(500);
		if (asked && !strcmp(what, "holes"))
			asked = take_holes();
	}
	failed = !strcmp(what, "address") ? take(88, MIB) : take(!strcmp(what, "locked") ? 254 : 490, 4096);
	printf("%s\n", failed ? "refused" : "taken");
	return failed;
}
