// SPDX-License-Identifier: BSD-2-Clause
#include "target/memory_child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/child.h"
#include "base/fd_message.h"
#include "base/small_file.h"
#include "base/util.h"

#define ALONE_S 5

ssize_t xp_memory_read_process(pid_t pid, uint64_t address, void *to, size_t size)
{
	struct iovec here = { to, size };
	struct iovec there = { (void *)(uintptr_t)address, size };
	ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);

	return n < 0 ? -errno : n;
}

static ssize_t read_held(int held_fd, uint64_t address, void *to, size_t size)
{
	ssize_t n = pread(held_fd, to, size, (off_t)address);

	return n < 0 ? -errno : n;
}

int xp_memory_open_maps(pid_t pid)
{
	return xp_open_format(O_RDONLY, "/proc/%d/maps", pid);
}

static ssize_t write_held(int held_fd, uint64_t address, const void *from, size_t size)
{
	ssize_t n = pwrite(held_fd, from, size, (off_t)address);

	return n < 0 ? -errno : n;
}

/* Reads until EOF or until `to` is full, because the kernel returns one page of the text per read. */
ssize_t xp_memory_read_text(int fd, uint8_t *to, size_t size)
{
	size_t used = 0;
	ssize_t n = 1;

	while (used < size && n > 0) {
		n = read(fd, to + used, size - used);
		if (n < 0)
			return -errno;
		used += (size_t)n;
	}
	return (ssize_t)used;
}

static ssize_t read_maps(const struct xp_memory_request *request, int *maps_fd, uint8_t *to)
{
	if (!request->address) {
		if (*maps_fd >= 0)
			close(*maps_fd);
		*maps_fd = xp_memory_open_maps(request->pid);
	}
	return *maps_fd < 0 ? *maps_fd : xp_memory_read_text(*maps_fd, to, request->size);
}

/* Descriptors that the child keeps; -1: none. */
struct child_files {
	int held; /* /proc/PID/mem */
	int maps;
};

/* Executes a request. Sets *answer_fd to a descriptor to send with the answer, or -1. */
static int64_t carry_out(const struct xp_memory_request *request, struct child_files *files, uint8_t *piece,
			 int *answer_fd)
{
	if (request->size > XP_MEMORY_PIECE_BYTES)
		return -EINVAL;
	switch (request->operation) {
	case XP_MEMORY_READ:
		return xp_memory_read_process(request->pid, request->address, piece, request->size);
	case XP_MEMORY_READ_HELD:
		return read_held(files->held, request->address, piece, request->size);
	case XP_MEMORY_WRITE_HELD:
		return write_held(files->held, request->address, piece, request->size);
	case XP_MEMORY_READ_MAPS:
		return read_maps(request, &files->maps, piece);
	case XP_MEMORY_MAPPED_FILE:
		*answer_fd = xp_open_format(O_PATH, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, request->pid,
					    request->address, request->end);
		return XP_MIN(*answer_fd, 0);
	default:
		return 0;
	}
}

int xp_memory_serve(void *piece)
{
	struct child_files files = { .held = -1, .maps = -1 };
	struct xp_memory_request request;
	int request_fd;

	while (xp_fd_message_receive(XP_CHILD_CHANNEL, &request, sizeof(request), &request_fd) == sizeof(request)) {
		int answer_fd = -1;
		int64_t n;

		if (request_fd >= 0) {
			close(files.held);
			files.held = request_fd;
		}
		/* Ends the child even if no xprof is left to kill it. */
		alarm(ALONE_S);
		n = carry_out(&request, &files, piece, &answer_fd);
		alarm(0);
		if (xp_fd_message_send(XP_CHILD_CHANNEL, &n, sizeof(n), answer_fd) != sizeof(n))
			break;
		if (answer_fd >= 0)
			close(answer_fd);
	}
	return 0;
}
