/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of a target, whose content is the input of a fuzz target. Replaces target/memory.c, which is not linked. A
 * byte changes at a certain read, as in a running process.
 */
#ifndef XPROF_FUZZ_FAKE_MEMORY_H
#define XPROF_FUZZ_FAKE_MEMORY_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "target/memory.h"

#define FAKE_BASE 0x7f0000000000ull
#define FAKE_READS_MAX 100000 /* no fuzz target needs more */

static const uint8_t *fake_bytes;
static size_t fake_size;
static unsigned int fake_reads;
static unsigned int fake_change; /* from this read on, a byte differs; 0: never */

static inline void fake_memory(const uint8_t *bytes, size_t size, unsigned int change)
{
	fake_bytes = bytes;
	fake_size = size;
	fake_reads = 0;
	fake_change = change;
}

int xp_target_memory_new(struct xp_target_memory **memory)
{
	*memory = NULL;
	return 0;
}

void xp_target_memory_free(struct xp_target_memory *memory)
{
	(void)memory;
}

ssize_t xp_target_memory_read_some(struct xp_target_memory *memory, pid_t pid, uint64_t address, void *to, size_t size)
{
	uint64_t offset = address - FAKE_BASE;
	size_t bytes;

	(void)memory;
	(void)pid;
	if (++fake_reads > FAKE_READS_MAX)
		abort();
	if (offset >= fake_size)
		return -EFAULT;
	bytes = size < fake_size - offset ? size : fake_size - offset;
	memcpy(to, fake_bytes + offset, bytes);
	if (fake_change && fake_reads >= fake_change && bytes)
		((uint8_t *)to)[fake_change % bytes] ^= (uint8_t)fake_reads;
	return (ssize_t)bytes;
}

int xp_target_memory_read(struct xp_target_memory *memory, pid_t pid, uint64_t address, void *to, size_t size)
{
	ssize_t bytes = size ? xp_target_memory_read_some(memory, pid, address, to, size) : 0;

	if (bytes < 0)
		return (int)bytes;
	return (size_t)bytes == size ? 0 : -EFAULT;
}

/* The fake process has no mappings. */
struct xp_target_memory *xp_target_memory_own(void)
{
	return NULL;
}

int xp_target_memory_maps(struct xp_target_memory *memory, pid_t pid, char **text, size_t max)
{
	(void)memory, (void)pid, (void)max;
	*text = NULL;
	return -ESRCH;
}

int xp_target_memory_map_file(struct xp_target_memory *memory, pid_t pid, uint64_t start, uint64_t end)
{
	(void)memory, (void)pid, (void)start, (void)end;
	return -ESRCH;
}

#endif
