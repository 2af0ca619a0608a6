// SPDX-License-Identifier: BSD-2-Clause
#include "target/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"

#define PIECE_BYTES (256u << 10)
#define PATIENCE_MS 1000
#define PAGE_BYTES 4096ull
#define ALONE_S 5
#define END_TRIES 100 /* of a millisecond */
#define STUCK_MAX 16  /* processes; while all of them are left alone, nothing is read of others either */
/* So long nothing is read of a process that made its reader wait; twice as long the next time, and so on. */
#define RETRY_NS (16 * XP_NS_PER_S)
#define RETRY_SHIFT_MAX 8u

enum operation {
	READ, /* of process pid */
	HOLD, /* a descriptor comes with it, of /proc/PID/mem */
	READ_HELD,
	WRITE_HELD, /* what is in the shared piece */
};

struct request {
	enum operation operation;
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
	pid_t left;  /* one that SIGKILL did not reach in time, 0: none */
	int socket;
	uint8_t *piece; /* shared with the child */
	uint64_t held;	/* serial of the program whose memory the child has open, 0: none */
};

/* Known to all who read: to wait once for a process is enough. */
static struct {
	pthread_mutex_t lock;
	struct stuck list[STUCK_MAX];
	size_t count;
} stuck_ones = { .lock = PTHREAD_MUTEX_INITIALIZER };

int xp_target_memory_new(struct xp_target_memory **memory)
{
	struct xp_target_memory *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	*memory = made;
	return 0;
}

static bool reaped(pid_t child)
{
	return waitpid(child, NULL, WNOHANG) != 0;
}

static void stop_child(struct xp_target_memory *memory)
{
	if (memory->left && reaped(memory->left))
		memory->left = 0;
	if (!memory->child)
		return;
	kill(memory->child, SIGKILL);
	close(memory->socket);
	memory->held = 0;
	for (int tries = 0; tries < END_TRIES; tries++) {
		if (reaped(memory->child)) {
			memory->child = 0;
			return;
		}
		usleep(1000);
	}
	/* Even that does not reach it. It may write into the piece whenever it wakes up: that is its own from now on.
	 */
	memory->left = memory->child;
	memory->child = 0;
	munmap(memory->piece, PIECE_BYTES);
	memory->piece = NULL;
}

void xp_target_memory_free(struct xp_target_memory *memory)
{
	if (!memory)
		return;
	stop_child(memory);
	if (memory->piece)
		munmap(memory->piece, PIECE_BYTES);
	free(memory);
}

/* ---- the child ---- */

static ssize_t read_process(pid_t pid, uint64_t address, void *to, size_t size)
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

/* The last page first: see the header. */
static ssize_t write_held(int held_fd, uint64_t address, const uint8_t *from, size_t size)
{
	size_t left = size;

	while (left) {
		uint64_t last_page = (address + left - 1) & ~(PAGE_BYTES - 1);
		size_t begin = last_page > address ? last_page - address : 0;
		ssize_t n = pwrite(held_fd, from + begin, left - begin, (off_t)(address + begin));

		if (n != (ssize_t)(left - begin))
			return n < 0 ? -errno : n == 0 ? -ESRCH : -EIO;
		left = begin;
	}
	return size;
}

/* The next request, and the descriptor that came with it. */
static bool receive(int socket, struct request *request, int *held_fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec data = { request, sizeof(*request) };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	const struct cmsghdr *header;

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof(*request))
		return false;
	header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_type != SCM_RIGHTS)
		return true;
	if (*held_fd >= 0)
		close(*held_fd);
	memcpy(held_fd, CMSG_DATA(header), sizeof(*held_fd));
	return true;
}

static int64_t carry_out(const struct request *request, int held_fd, uint8_t *piece)
{
	if (request->size > PIECE_BYTES)
		return -EINVAL;
	switch (request->operation) {
	case READ:
		return read_process(request->pid, request->address, piece, request->size);
	case READ_HELD:
		return read_held(held_fd, request->address, piece, request->size);
	case WRITE_HELD:
		return write_held(held_fd, request->address, piece, request->size);
	default:
		return 0;
	}
}

static __attribute__((noreturn)) void serve(int socket, uint8_t *piece)
{
	struct request request;
	int held_fd = -1;

	sigset_t alarms;

	/* Not with xprof, which may be killed while a task of its own is at work: see the header. */
	setsid();
	prctl(PR_SET_NAME, "xprof-memory");
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	if (dup2(socket, 3) < 0)
		_exit(1);
	close_range(4, ~0u, 0);
	while (receive(3, &request, &held_fd)) {
		int64_t n;

		/* Nobody may be left to kill it. */
		alarm(ALONE_S);
		n = carry_out(&request, held_fd, piece);
		alarm(0);

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
	if (!memory->piece) {
		uint8_t *piece = mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		if (piece == MAP_FAILED)
			return -ENOMEM;
		memory->piece = piece;
	}
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

static struct stuck *find_stuck(pid_t pid)
{
	for (size_t i = 0; i < stuck_ones.count; i++)
		if (stuck_ones.list[i].pid == pid)
			return &stuck_ones.list[i];
	return NULL;
}

/* Whose time has come first, if it has. */
static struct stuck *find_due(void)
{
	struct stuck *due = &stuck_ones.list[0];

	for (size_t i = 1; i < stuck_ones.count; i++)
		if (stuck_ones.list[i].retry_ns < due->retry_ns)
			due = &stuck_ones.list[i];
	return stuck_ones.count && due->retry_ns <= xp_now_ns() ? due : NULL;
}

static void drop_ended(void)
{
	size_t kept = 0;

	for (size_t i = 0; i < stuck_ones.count; i++)
		if (!kill(stuck_ones.list[i].pid, 0) || errno != ESRCH)
			stuck_ones.list[kept++] = stuck_ones.list[i];
	memset(stuck_ones.list + kept, 0, (stuck_ones.count - kept) * sizeof(*stuck_ones.list));
	stuck_ones.count = kept;
}

static bool is_stuck(pid_t pid)
{
	const struct stuck *stuck;
	bool leave_alone;

	pthread_mutex_lock(&stuck_ones.lock);
	stuck = find_stuck(pid);
	if (!stuck && stuck_ones.count == STUCK_MAX)
		drop_ended();
	leave_alone = stuck ? xp_now_ns() < stuck->retry_ns : stuck_ones.count == STUCK_MAX && !find_due();
	pthread_mutex_unlock(&stuck_ones.lock);
	return leave_alone;
}

/* Whether it is the first time. */
static bool note_stuck(pid_t pid)
{
	struct stuck *stuck;
	bool first;

	pthread_mutex_lock(&stuck_ones.lock);
	stuck = find_stuck(pid);
	first = !stuck;
	if (!stuck)
		stuck = stuck_ones.count < STUCK_MAX ? &stuck_ones.list[stuck_ones.count++] : find_due();
	/* Another thread may have taken the last place. */
	if (stuck) {
		stuck->pid = pid;
		stuck->retry_ns = xp_now_ns() + (RETRY_NS << XP_MIN(stuck->times, RETRY_SHIFT_MAX));
		stuck->times++;
	}
	pthread_mutex_unlock(&stuck_ones.lock);
	return first;
}

/* It waits for somebody, or has died. */
static int give_up(struct xp_target_memory *memory, pid_t pid)
{
	stop_child(memory);
	if (note_stuck(pid))
		xp_warn("process %d: its memory cannot be read in time, and is left alone for a while: code that only "
			"that tells of stays without a name, and calls that are only counted there are not known",
			pid);
	return -ETIMEDOUT;
}

/* fd: goes with it, -1: none. */
static bool send_request(struct xp_target_memory *memory, const struct request *request, int fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec data = { (void *)request, sizeof(*request) };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };

	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS,
						   .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	return sendmsg(memory->socket, &message, MSG_NOSIGNAL) == sizeof(*request);
}

/* The child's answer; -ETIMEDOUT: there is none, and no child any more. */
static ssize_t exchange(struct xp_target_memory *memory, const struct request *request, int fd)
{
	struct pollfd answer = { memory->socket, POLLIN, 0 };
	int64_t n;
	int ready;

	if (!send_request(memory, request, fd))
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
		return pid == getpid() ? read_process(pid, address, to, size) : -EINVAL;
	if (is_stuck(pid))
		return -ETIMEDOUT;
	while (done < size) {
		struct request request = { READ, pid, (uint32_t)XP_MIN(size - done, (size_t)PIECE_BYTES),
					   address + done };

		n = start_child(memory);
		if (!n)
			n = exchange(memory, &request, -1);
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

int xp_target_memory_start(struct xp_target_memory *memory)
{
	return start_child(memory);
}

/* ---- one for each thread ---- */

static pthread_once_t own_once = PTHREAD_ONCE_INIT;
static pthread_key_t own_key;
static bool own_possible;

static void free_own(void *memory)
{
	xp_target_memory_free(memory);
}

static void make_own_key(void)
{
	own_possible = !pthread_key_create(&own_key, free_own);
}

struct xp_target_memory *xp_target_memory_own(void)
{
	struct xp_target_memory *own;

	pthread_once(&own_once, make_own_key);
	if (!own_possible)
		return NULL;
	own = pthread_getspecific(own_key);
	if (own || xp_target_memory_new(&own))
		return own;
	if (pthread_setspecific(own_key, own)) {
		xp_target_memory_free(own);
		return NULL;
	}
	return own;
}

/* ---- the memory of one program ---- */

int xp_program_memory_open(struct xp_program_memory *program, pid_t pid, pid_t tid, bool writable)
{
	static uint64_t serials;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/mem", pid, tid);
	program->pid = pid;
	program->serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
	program->fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (program->fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return 0;
}

void xp_program_memory_close(struct xp_program_memory *program)
{
	if (program->fd >= 0)
		close(program->fd);
	program->fd = -1;
}

/* Starts the child where there is none, and gives it this memory. */
static int hold(struct xp_target_memory *memory, const struct xp_program_memory *program)
{
	const struct request request = { .operation = HOLD, .pid = program->pid };
	int err;

	if (is_stuck(program->pid))
		return -ETIMEDOUT;
	err = start_child(memory);
	if (err || memory->held == program->serial)
		return err;
	err = (int)exchange(memory, &request, program->fd);
	if (!err)
		memory->held = program->serial;
	return err;
}

ssize_t xp_program_memory_read(struct xp_target_memory *memory, const struct xp_program_memory *program,
			       uint64_t address, void *to, size_t size)
{
	const struct request request = { READ_HELD, program->pid, (uint32_t)XP_MIN(size, (size_t)PIECE_BYTES),
					 address };
	ssize_t n = hold(memory, program);

	if (n)
		return n;
	n = exchange(memory, &request, -1);
	if (n > 0)
		memcpy(to, memory->piece, (size_t)n);
	return n;
}

int xp_program_memory_write(struct xp_target_memory *memory, const struct xp_program_memory *program, uint64_t address,
			    const void *from, size_t size)
{
	const struct request request = { WRITE_HELD, program->pid, (uint32_t)size, address };
	ssize_t n;
	int err;

	if (size > XP_PROGRAM_WRITE_MAX)
		return -EINVAL;
	err = hold(memory, program);
	if (err)
		return err;
	memcpy(memory->piece, from, size);
	n = exchange(memory, &request, -1);
	return n < 0 ? (int)n : 0;
}
