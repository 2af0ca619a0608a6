// SPDX-License-Identifier: BSD-2-Clause
#include "target/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/child.h"
#include "base/fd_message.h"
#include "base/small_file.h"
#include "base/util.h"
#include "target/memory_child.h"
#include "target/target.h"

/*
 * How long a process may make its reader wait. Halved for each process that is skipped, for the benefit of others: all
 * processes that can be skipped at a time together cause waits of 8 s.
 */
#define PATIENCE_MS 1000
#define PATIENCE_MIN_MS 100
#define PATIENCE_SHIFT_MAX 4
#define SLICES 20      /* parts of this time; after each, check whether the child waits for the process */
#define SLICES_MAX 100 /* including parts after which a thread waits for a CPU */
#define END_MS 100
#define MAPS_ROOM (64u << 10) /* initial size; doubles */
#define STUCK_MAX 64	      /* processes; while all of them are skipped, others are skipped too */
/* A process that made its reader wait is skipped for this long; the time doubles with each repetition. */
#define RETRY_NS (16 * XP_NS_PER_S)
#define RETRY_SHIFT_MAX 8u

/* The resource for which a process can make its reader wait. */
enum wait_kind {
	ITS_MEMORY,
	ITS_MAPPINGS, /* their lock */
};

struct stuck {
	pid_t pid;
	enum wait_kind kind;
	unsigned int times; /* includes earlier users of this slot, to keep the total of waits low */
	uint64_t retry_ns;
};

struct xp_target_memory {
	struct xp_child child;
	pid_t left;	/* a child that survived SIGKILL for too long; 0: none */
	uint8_t *piece; /* shared with the child */
	uint64_t held;	/* serial of the program whose memory the child has opened; 0: none */
};

/* Shared by all readers, so that only one of them waits for a process. */
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

static void stop_child(struct xp_target_memory *memory)
{
	if (memory->left && xp_child_wait(memory->left, 0) != -EAGAIN)
		memory->left = 0;
	if (!memory->child.pid)
		return;
	if (!xp_child_kill(&memory->child, END_MS)) {
		/* The child may still write to the shared piece when it wakes up, so leave the piece to it. */
		memory->left = memory->child.pid;
		munmap(memory->piece, XP_MEMORY_PIECE_BYTES);
		memory->piece = NULL;
	}
	memory->child.pid = 0;
	memory->held = 0;
}

void xp_target_memory_free(struct xp_target_memory *memory)
{
	if (!memory)
		return;
	stop_child(memory);
	if (memory->piece)
		munmap(memory->piece, XP_MEMORY_PIECE_BYTES);
	free(memory);
}

void xp_target_memory_forked(struct xp_target_memory *memory)
{
	if (memory->child.pid)
		close(memory->child.fd);
	if (memory->piece)
		munmap(memory->piece, XP_MEMORY_PIECE_BYTES);
	*memory = (struct xp_target_memory){ 0 };
}

int xp_target_memory_start(struct xp_target_memory *memory)
{
	/* The child must outlive xprof, which may be killed while one of its tasks is working: see the header. */
	static const struct xp_child_options options = { .name = "xprof-memory",
							 .channel = XP_CHILD_SOCKET,
							 .outlives_parent = true };

	if (memory->child.pid)
		return 0;
	if (!memory->piece) {
		uint8_t *piece =
		    mmap(NULL, XP_MEMORY_PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		if (piece == MAP_FAILED)
			return -ENOMEM;
		memory->piece = piece;
	}
	return xp_child_start(&memory->child, &options, xp_memory_serve, memory->piece);
}

/* ---- the caller ---- */

static enum wait_kind kind_of(enum xp_memory_operation operation)
{
	return operation == XP_MEMORY_READ_MAPS || operation == XP_MEMORY_MAPPED_FILE ? ITS_MAPPINGS : ITS_MEMORY;
}

static struct stuck *find_stuck(pid_t pid, enum wait_kind kind)
{
	for (size_t i = 0; i < stuck_ones.count; i++)
		if (stuck_ones.list[i].pid == pid && stuck_ones.list[i].kind == kind)
			return &stuck_ones.list[i];
	return NULL;
}

/* Returns the slot that became due first, or NULL if none is due. */
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

static bool is_stuck(pid_t pid, enum wait_kind kind)
{
	const struct stuck *stuck;
	bool leave_alone;

	pthread_mutex_lock(&stuck_ones.lock);
	stuck = find_stuck(pid, kind);
	if (!stuck && stuck_ones.count == STUCK_MAX)
		drop_ended();
	leave_alone = stuck ? xp_now_ns() < stuck->retry_ns : stuck_ones.count == STUCK_MAX && !find_due();
	pthread_mutex_unlock(&stuck_ones.lock);
	return leave_alone;
}

static int patience_ms(void)
{
	uint64_t now_ns = xp_now_ns();
	int skipped = 0;

	pthread_mutex_lock(&stuck_ones.lock);
	for (size_t i = 0; i < stuck_ones.count; i++)
		skipped += stuck_ones.list[i].retry_ns > now_ns;
	pthread_mutex_unlock(&stuck_ones.lock);
	return XP_MAX(PATIENCE_MS >> XP_MIN(skipped, PATIENCE_SHIFT_MAX), PATIENCE_MIN_MS);
}

/* Records that a process made its reader wait. Returns true if it is the first time. */
static bool note_stuck(pid_t pid, enum wait_kind kind)
{
	struct stuck *stuck;
	bool first;

	pthread_mutex_lock(&stuck_ones.lock);
	stuck = find_stuck(pid, kind);
	first = !stuck;
	if (!stuck)
		stuck = stuck_ones.count < STUCK_MAX ? &stuck_ones.list[stuck_ones.count++] : find_due();
	/* Another thread may have used the last slot. */
	if (stuck) {
		stuck->pid = pid;
		stuck->kind = kind;
		stuck->retry_ns = xp_now_ns() + (RETRY_NS << XP_MIN(stuck->times, RETRY_SHIFT_MAX));
		stuck->times++;
	}
	pthread_mutex_unlock(&stuck_ones.lock);
	return first;
}

/* Gives up the child, which is waiting or has died. */
static int give_up(struct xp_target_memory *memory, pid_t pid, enum wait_kind kind)
{
	stop_child(memory);
	if (!note_stuck(pid, kind))
		return -ETIMEDOUT;
	if (kind == ITS_MEMORY)
		xp_warn("process %d: timeout while reading its memory; xprof will retry later; until then, some JIT "
			"functions have no names, and throttled calls are not counted",
			pid);
	else
		xp_warn("process %d: timeout while reading its mappings; xprof will retry later; until then, code that "
			"it maps has no names",
			pid);
	return -ETIMEDOUT;
}

/*
 * Returns whether the child waits for a CPU, or a thread of the process does that may hold the lock that the child
 * waits for. Ignores those threads once processes are skipped: many hostile ones would make the reader wait.
 */
static bool is_machine_slow(const struct xp_target_memory *memory, pid_t pid, int patience)
{
	return xp_target_has_thread(memory->child.pid, 'R') ||
	       (patience == PATIENCE_MS && xp_target_has_thread(pid, 'R'));
}

/* Returns false if the child has not answered in time, and for most of that time was not waiting for a CPU. */
static bool has_answered(const struct xp_target_memory *memory, pid_t pid)
{
	struct pollfd answer = { memory->child.fd, POLLIN, 0 };
	int patience = patience_ms(), blocked = 0, ready = 0;

	for (int slices = 0; ready <= 0 && blocked < SLICES && slices < SLICES_MAX; slices++) {
		ready = poll(&answer, 1, patience / SLICES);
		if (!ready && !is_machine_slow(memory, pid, patience))
			blocked++;
	}
	return ready > 0;
}

/*
 * Sends a request with the descriptor fd. Returns the child's answer, and its descriptor or -1 in *answer_fd. After
 * -ETIMEDOUT there is no child.
 */
static ssize_t exchange_fds(struct xp_target_memory *memory, const struct xp_memory_request *request, int fd,
			    int *answer_fd)
{
	enum wait_kind kind = kind_of(request->operation);
	int64_t n;

	*answer_fd = -1;
	if (xp_fd_message_send(memory->child.fd, request, sizeof(*request), fd) != sizeof(*request))
		return give_up(memory, request->pid, kind);
	if (!has_answered(memory, request->pid) ||
	    xp_fd_message_receive(memory->child.fd, &n, sizeof(n), answer_fd) != sizeof(n) || n > request->size)
		return give_up(memory, request->pid, kind);
	return n;
}

static ssize_t exchange(struct xp_target_memory *memory, const struct xp_memory_request *request, int fd)
{
	int answer_fd;
	ssize_t n = exchange_fds(memory, request, fd, &answer_fd);

	if (answer_fd >= 0)
		close(answer_fd);
	return n;
}

/* Copies what the child has read. */
static ssize_t fetch(struct xp_target_memory *memory, const struct xp_memory_request *request, void *to)
{
	ssize_t n = exchange(memory, request, -1);

	if (n > 0)
		memcpy(to, memory->piece, (size_t)n);
	return n;
}

ssize_t xp_target_memory_read_some(struct xp_target_memory *memory, pid_t pid, uint64_t address, void *to, size_t size)
{
	size_t done = 0;
	ssize_t n = 0;

	if (!memory)
		return pid == getpid() ? xp_memory_read_process(pid, address, to, size) : -EINVAL;
	if (is_stuck(pid, ITS_MEMORY))
		return -ETIMEDOUT;
	while (done < size) {
		struct xp_memory_request request = { .operation = XP_MEMORY_READ,
						     .pid = pid,
						     .size =
							 (uint32_t)XP_MIN(size - done, (size_t)XP_MEMORY_PIECE_BYTES),
						     .address = address + done };

		n = xp_target_memory_start(memory);
		if (!n)
			n = fetch(memory, &request, (uint8_t *)to + done);
		if (n <= 0)
			break;
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

/* ---- mappings ---- */

/* Reads the next piece of the text into to. Returns 0 at its end. */
static ssize_t read_maps_piece(struct xp_target_memory *memory, pid_t pid, size_t known, char *to, size_t size)
{
	const struct xp_memory_request request = { .operation = XP_MEMORY_READ_MAPS,
						   .pid = pid,
						   .size = (uint32_t)XP_MIN(size, (size_t)XP_MEMORY_PIECE_BYTES),
						   .address = known };

	return fetch(memory, &request, to);
}

static int grow(char **text, size_t *room, size_t max)
{
	size_t more_room = *room ? 2 * *room : MAPS_ROOM;
	char *more;

	if (*room >= max)
		return -E2BIG;
	more = realloc(*text, more_room);
	if (!more)
		return -ENOMEM;
	*text = more;
	*room = more_room;
	return 0;
}

int xp_target_memory_maps(struct xp_target_memory *memory, pid_t pid, char **text, size_t max)
{
	/* xprof's own mappings need no child: a caller may not be allowed to create one. */
	bool is_own = pid == getpid();
	int own_fd = is_own ? xp_memory_open_maps(pid) : -1;
	size_t room = 0, used = 0;
	ssize_t n;

	*text = NULL;
	if (is_own)
		n = XP_MIN(own_fd, 0);
	else
		n = !memory ? -ENOMEM : is_stuck(pid, ITS_MAPPINGS) ? -ETIMEDOUT : xp_target_memory_start(memory);
	if (n)
		return (int)n;
	do {
		n = used + 1 >= room ? grow(text, &room, max) : 0;
		if (!n && is_own)
			n = xp_memory_read_text(own_fd, (uint8_t *)*text + used, room - used - 1);
		else if (!n)
			n = read_maps_piece(memory, pid, used, *text + used, room - used - 1);
		used += (size_t)XP_MAX(n, 0);
	} while (n > 0);
	if (is_own)
		close(own_fd);
	if (n < 0) {
		free(*text);
		*text = NULL;
		return (int)n;
	}
	(*text)[used] = 0;
	return 0;
}

int xp_target_memory_map_file(struct xp_target_memory *memory, pid_t pid, uint64_t start, uint64_t end)
{
	const struct xp_memory_request request = {
		.operation = XP_MEMORY_MAPPED_FILE, .pid = pid, .address = start, .end = end
	};
	int err, fd;

	if (!memory)
		return -ENOMEM;
	if (is_stuck(pid, ITS_MAPPINGS))
		return -ETIMEDOUT;
	err = xp_target_memory_start(memory);
	if (!err)
		err = (int)exchange_fds(memory, &request, -1, &fd);
	return err ? err : fd;
}

/* ---- one per thread ---- */

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

	program->pid = pid;
	program->serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
	program->fd = xp_open_format(writable ? O_RDWR : O_RDONLY, "/proc/%d/task/%d/mem", pid, tid);
	return program->fd == -ENOENT ? -ESRCH : XP_MIN(program->fd, 0);
}

void xp_program_memory_close(struct xp_program_memory *program)
{
	if (program->fd >= 0)
		close(program->fd);
	program->fd = -1;
}

/* Starts the child if needed, and passes it this memory. */
static int hold(struct xp_target_memory *memory, const struct xp_program_memory *program)
{
	const struct xp_memory_request request = { .operation = XP_MEMORY_HOLD, .pid = program->pid };
	int err;

	if (is_stuck(program->pid, ITS_MEMORY))
		return -ETIMEDOUT;
	err = xp_target_memory_start(memory);
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
	const struct xp_memory_request request = { .operation = XP_MEMORY_READ_HELD,
						   .pid = program->pid,
						   .size = (uint32_t)XP_MIN(size, (size_t)XP_MEMORY_PIECE_BYTES),
						   .address = address };
	ssize_t n = hold(memory, program);

	return n ? n : fetch(memory, &request, to);
}

int xp_program_memory_write(struct xp_target_memory *memory, const struct xp_program_memory *program, uint64_t address,
			    const void *from, size_t size)
{
	const struct xp_memory_request request = {
		.operation = XP_MEMORY_WRITE_HELD, .pid = program->pid, .size = (uint32_t)size, .address = address
	};
	ssize_t n = hold(memory, program);

	if (n)
		return (int)n;
	memcpy(memory->piece, from, size);
	n = exchange(memory, &request, -1);
	return n < 0 ? (int)n : (size_t)n == size ? 0 : -ESRCH;
}
