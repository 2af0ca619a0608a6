// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
/* Moves its own text to memory without a file at the same addresses, as programs do for huge pages, and works there. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "go.h"

static volatile unsigned long sink;
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;

TRACED static void spin(void)
{
	for (unsigned long i = 0; i < 1000000; i++)
		sink += i;
}

UNTRACED static int move_text(unsigned long own)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start = 0, end = 0;
	char line[512];
	void *to;

	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && own >= start && own < end)
			break;
	if (!maps || fclose(maps) || own < start || own >= end)
		return -1;
	to = mmap(NULL, end - start, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (to == MAP_FAILED || mprotect(copy(to, (void *)start, end - start), end - start, PROT_READ | PROT_EXEC))
		return -1;
	return mremap(to, end - start, end - start, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) == MAP_FAILED;
}

UNTRACED int main(void)
{
	if (move_text((unsigned long)move_text))
		return 77;
	puts("ready");
	fflush(stdout);
	for (;;)
		spin();
}
