// SPDX-License-Identifier: BSD-2-Clause
#include "target_memory.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util.h"

#define PIECE_BYTES (256u << 10)
#define PATIENCE_MS 1000
#define END_TRIES 1000 /* of a millisecond */
#define STUCK_MAX 16   /* processes; while all of them are left alone, nothing is read of others either */
/* So long nothing is read of a process that made its reader wait; twice as long the next time, and so on. */
#define RETRY_NS (16 * XP_NS_PER_S)
#define RETRY_SHIFT_MAX 8u

struct request {
	pid_t pid;
	uint32_t size; /* at most PIECE_BYTES */
	uint64_t address;
};

struct stuck {
	pid_t pid;
	unsigned int times; /* also those of who had the place before: the waits do not add up for long */
	uint64_t retry_ns;
};

struct xp_target_memory {
	pid_t child; /* 0: not started */
	int socket;
	uint8_t *piece; /* shared with the child */
	struct stuck stuck[STUCK_MAX];
	size_t stuck_count;
};

int xp_target_memory_new(struct xp_target_memory **memory)
{
	struct xp_target_memory *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	made->piece = mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (made->piece == MAP_FAILED) {
		free(made);
		return -ENOMEM;
	}
	*memory = made;
	return 0;
}

static void stop_child(struct xp_target_memory *memory)
{
	if (!memory->child)
		return;
	kill(memory->child, SIGKILL);
	/* Should even that not reach it, it is left to itself. */
	for (int tries = 0; tries < END_TRIES && !waitpid(memory->child, NULL, WNOHANG); tries++)
		usleep(1000);
	close(memory->socket);
	memory->child = 0;
}

void xp_target_memory_free(struct xp_target_memory *memory)
{
	if (!memory)
		return;
	stop_child(memory);
	munmap(memory->piece, PIECE_BYTES);
	free(memory);
}

static ssize_t read_here(pid_t pid, uint64_t address, void *to, size_t size)
{
	struct iovec here = { to, size };
	struct iovec there = { (void *)(uintptr_t)address, size };
	ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);

	return n < 0 ? -errno : n;
}

/* ---- the child ---- */

static __attribute__((noreturn)) void serve(int socket, uint8_t *piece)
{
	struct request request;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "xprof-memory");
	if (dup2(socket, 3) < 0)
		_exit(1);
	close_range(4, ~0u, 0);
	while (recv(3, &request, sizeof(request), 0) == sizeof(request)) {
		int64_t n = request.size <= PIECE_BYTES ? read_here(request.pid, request.address, piece, request.size)
							: -EINVAL;

		if (send(3, &n, sizeof(n), MSG_NOSIGNAL) != sizeof(n))
			break;
	}
	_exit(0);
}

static int start_child(struct xp_target_memory *memory)
{
	int ends[2];

	if (memory->child)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	memory->child = fork();
	if (memory->child < 0) {
		int err = -errno;

		memory->child = 0;
		close(ends[0]);
		close(ends[1]);
		return err;
	}
	if (!memory->child)
		serve(ends[1], memory->piece);
	close(ends[1]);
	memory->socket = ends[0];
	return 0;
}

/* ---- its use ---- */

static struct stuck *find_stuck(struct xp_target_memory *memory, pid_t pid)
{
	for (size_t i = 0; i < memory->stuck_count; i++)
		if (memory->stuck[i].pid == pid)
			return &memory->stuck[i];
	return NULL;
}

/* Whose time has come first, if it has. */
static struct stuck *find_due(struct xp_target_memory *memory)
{
	struct stuck *due = &memory->stuck[0];

	for (size_t i = 1; i < memory->stuck_count; i++)
		if (memory->stuck[i].retry_ns < due->retry_ns)
			due = &memory->stuck[i];
	return memory->stuck_count && due->retry_ns <= xp_now_ns() ? due : NULL;
}

static void drop_ended(struct xp_target_memory *memory)
{
	size_t kept = 0;

	for (size_t i = 0; i < memory->stuck_count; i++)
		if (!kill(memory->stuck[i].pid, 0) || errno != ESRCH)
			memory->stuck[kept++] = memory->stuck[i];
	memset(memory->stuck + kept, 0, (memory->stuck_count - kept) * sizeof(*memory->stuck));
	memory->stuck_count = kept;
}

static bool is_stuck(struct xp_target_memory *memory, pid_t pid)
{
	const struct stuck *stuck = find_stuck(memory, pid);

	if (stuck)
		return xp_now_ns() < stuck->retry_ns;
	if (memory->stuck_count == STUCK_MAX)
		drop_ended(memory);
	return memory->stuck_count == STUCK_MAX && !find_due(memory);
}

/* It waits for somebody, or has died. */
static int give_up(struct xp_target_memory *memory, pid_t pid)
{
	struct stuck *stuck = find_stuck(memory, pid);

	stop_child(memory);
	if (!stuck) {
		stuck = memory->stuck_count < STUCK_MAX ? &memory->stuck[memory->stuck_count++] : find_due(memory);
		stuck->pid = pid;
		xp_warn("process %d: its memory cannot be read in time, and is left alone for a while: code that only "
			"that tells of stays without a name, and calls that are only counted there are not known",
			pid);
	}
	stuck->retry_ns = xp_now_ns() + (RETRY_NS << XP_MIN(stuck->times, RETRY_SHIFT_MAX));
	stuck->times++;
	return -ETIMEDOUT;
}

static ssize_t read_piece(struct xp_target_memory *memory, const struct request *request)
{
	struct pollfd answer = { memory->socket, POLLIN, 0 };
	int64_t n;
	int ready;

	if (send(memory->socket, request, sizeof(*request), MSG_NOSIGNAL) != sizeof(*request))
		return give_up(memory, request->pid);
	do {
		ready = poll(&answer, 1, PATIENCE_MS);
	} while (ready < 0 && errno == EINTR);
	if (ready != 1 || recv(memory->socket, &n, sizeof(n), 0) != sizeof(n) || n > request->size)
		return give_up(memory, request->pid);
	return n;
}

ssize_t xp_target_memory_read_some(struct xp_target_memory *memory, pid_t pid, uint64_t address, void *to, size_t size)
{
	size_t done = 0;
	ssize_t n = 0;

	if (!memory)
		return read_here(pid, address, to, size);
	if (is_stuck(memory, pid))
		return -ETIMEDOUT;
	while (done < size) {
		struct request request = { pid, (uint32_t)XP_MIN(size - done, (size_t)PIECE_BYTES), address + done };

		n = start_child(memory);
		if (!n)
			n = read_piece(memory, &request);
		if (n <= 0)
			break;
		memcpy((uint8_t *)to + done, memory->piece, (size_t)n);
		done += (size_t)n;
		if ((size_t)n < request.size)
			break;
	}
	return done ? (ssize_t)done : n;
}

int xp_target_memory_read(struct xp_target_memory *memory, pid_t pid, uint64_t address, void *to, size_t size)
{
	ssize_t n = xp_target_memory_read_some(memory, pid, address, to, size);

	if (n < 0)
		return (int)n;
	return (size_t)n == size ? 0 : -EFAULT;
}
