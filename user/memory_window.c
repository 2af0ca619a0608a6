// SPDX-License-Identifier: BSD-2-Clause
#include "memory_window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW_BYTES (64u << 10)

struct xp_memory_window {
	int fd;
	uint64_t start;
	size_t bytes;
	uint8_t data[WINDOW_BYTES];
};

int xp_memory_window_open(struct xp_memory_window **result, pid_t pid)
{
	struct xp_memory_window *window = calloc(1, sizeof(*window));
	char path[64];

	if (!window)
		return -ENOMEM;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	window->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (window->fd < 0) {
		int err = errno == ENOENT ? -ESRCH : -errno;

		free(window);
		return err;
	}
	*result = window;
	return 0;
}

void xp_memory_window_free(struct xp_memory_window *window)
{
	if (!window)
		return;
	close(window->fd);
	free(window);
}

bool xp_memory_window_read(struct xp_memory_window *window, void *to, uint64_t address, size_t size)
{
	if (address < window->start || address + size > window->start + window->bytes) {
		ssize_t n = pread(window->fd, window->data, sizeof(window->data), (off_t)address);

		if (n < (ssize_t)size) {
			window->bytes = 0;
			return false;
		}
		window->start = address;
		window->bytes = n;
	}
	memcpy(to, window->data + (address - window->start), size);
	return true;
}

/* mem_rw(), fs/proc/base.c: nothing is read of memory that nobody uses any more; anywhere else it is an error. */
bool xp_memory_window_gone(const struct xp_memory_window *window)
{
	uint8_t byte;

	return pread(window->fd, &byte, sizeof(byte), 0) == 0;
}
