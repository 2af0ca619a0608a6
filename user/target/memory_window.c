// SPDX-License-Identifier: BSD-2-Clause
#include "target/memory_window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "target/memory.h"

#define WINDOW_BYTES (64u << 10)

struct xp_memory_window {
	struct xp_target_memory *memory; /* borrowed */
	struct xp_program_memory program;
	uint64_t low; /* the mapping */
	uint64_t high;
	uint64_t start;
	size_t bytes;
	uint8_t data[WINDOW_BYTES];
};

int xp_memory_window_open(struct xp_memory_window **result, pid_t pid)
{
	struct xp_memory_window *window = calloc(1, sizeof(*window));
	int err;

	if (!window)
		return -ENOMEM;
	window->memory = xp_target_memory_own();
	err = xp_program_memory_open(&window->program, pid, pid, false);
	if (!err && !window->memory)
		err = -ENOMEM;
	if (err)
		xp_memory_window_free(window);
	else
		*result = window;
	return err;
}

void xp_memory_window_free(struct xp_memory_window *window)
{
	if (!window)
		return;
	xp_program_memory_close(&window->program);
	free(window);
}

void xp_memory_window_set(struct xp_memory_window *window, uint64_t start, uint64_t end)
{
	window->low = start;
	window->high = end;
	window->bytes = 0;
}

static bool has(const struct xp_memory_window *window, uint64_t address, size_t size)
{
	uint64_t into = address - window->start;

	return address >= window->start && into <= window->bytes && size <= window->bytes - into;
}

bool xp_memory_window_read(struct xp_memory_window *window, void *to, uint64_t address, size_t size)
{
	if (!has(window, address, size)) {
		ssize_t n = 0;

		if (address >= window->low && address < window->high)
			n = xp_program_memory_read(window->memory, &window->program, address, window->data,
						   XP_MIN(sizeof(window->data), window->high - address));
		window->start = address;
		window->bytes = XP_MAX(n, 0);
	}
	if (!has(window, address, size))
		return false;
	memcpy(to, window->data + (address - window->start), size);
	return true;
}

/* mem_rw() in fs/proc/base.c: a read returns 0 if the memory has no users left; otherwise a read of address 0 fails. */
bool xp_memory_window_gone(const struct xp_memory_window *window)
{
	uint8_t byte;

	return xp_program_memory_read(window->memory, &window->program, 0, &byte, sizeof(byte)) == 0;
}
