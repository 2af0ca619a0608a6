// SPDX-License-Identifier: BSD-2-Clause
#include "base/confined.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/child.h"
#include "base/fd_message.h"
#include "base/file_view.h"
#include "base/syscall_filter.h"
#include "base/util.h"

#define NOBODY 65534
#define REAP_MS 1000
#define END_MS 200

struct xp_confined {
	struct xp_child opener; /* or the reader, if there is no opener; its channel is the pipe of the answers */
	bool is_late;
	uint64_t deadline_ns;
	FILE *answers;
	char real_path[PATH_MAX];
};

/* Sent by the opener before the reader's answers. */
struct greeting {
	int32_t err;
	uint32_t path_bytes;
};

/*
 * A request is a message on a SOCK_SEQPACKET socket: a path without a terminator. The reply is an int: 0 with a
 * descriptor, or -errno.
 */
#define PATH_BYTES_MAX (PATH_MAX - 1)

struct reading {
	xp_confined_read *read;
	const void *arg;
	const struct xp_confined_limits *limits;
};

/* ---- the reader ---- */

enum { OPENER_FD = XP_CHILD_CHANNEL, FILE_FD = XP_CHILD_FDS, ANSWERS_FD };

/* Limits in proportion to the files. */

/*
 * libdw expands compressed sections and symbol tables completely. Sections that a compiler wrote expand 2 to 8 times; a
 * hostile section expands 1000 times. The line tables of a library with 0.5 GB of compressed sections need 1.7 GB.
 */
#define START_BYTES ((rlim_t)256 << 20)
#define BYTES_PER_BYTE 16
#define START_CPU_SECONDS 10
#define BYTES_PER_CPU_SECOND (32u << 20)

static struct rlimit memory, cpu;

/*
 * Lowers the limits at the start. The process begins with the highest limits, because seccomp forbids prlimit(2), which
 * the C library's setrlimit() calls.
 */
static void set_room(const struct xp_confined_limits *limits)
{
	if (getrlimit(RLIMIT_AS, &memory) || getrlimit(RLIMIT_CPU, &cpu) || memory.rlim_max < limits->address_bytes)
		return;
	memory.rlim_cur = memory.rlim_max - limits->address_bytes + XP_MIN(limits->address_bytes, START_BYTES);
	cpu.rlim_cur = XP_MIN(cpu.rlim_cur, (rlim_t)START_CPU_SECONDS);
}

static void add_room(int fd)
{
	struct stat st;
	rlim_t bytes = fstat(fd, &st) ? 0 : XP_MIN((rlim_t)st.st_size, memory.rlim_max / BYTES_PER_BYTE);

	memory.rlim_cur += XP_MIN(bytes * BYTES_PER_BYTE, memory.rlim_max - memory.rlim_cur);
	cpu.rlim_cur = XP_MIN(cpu.rlim_cur + bytes / BYTES_PER_CPU_SECOND, cpu.rlim_max);
	syscall(SYS_setrlimit, RLIMIT_AS, &memory);
	syscall(SYS_setrlimit, RLIMIT_CPU, &cpu);
}

/* Opening by path: a trapped system call becomes a request. */

static long ask_opener(const char *path)
{
	size_t bytes = strnlen(path, PATH_BYTES_MAX + 1);
	int err, fd;
	ssize_t got;

	if (!bytes)
		return -ENOENT;
	if (bytes > PATH_BYTES_MAX)
		return -ENAMETOOLONG;
	if (xp_fd_message_send(OPENER_FD, path, bytes, -1) != (ssize_t)bytes)
		return -EACCES;
	got = xp_fd_message_receive(OPENER_FD, &err, sizeof(err), &fd);
	if (got != sizeof(err))
		return -EACCES;
	if (err)
		return err;
	add_room(fd);
	return fd;
}

static void trapped(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	bool is_openat = info->si_syscall == SYS_openat;
	const char *path = (const char *)registers[is_openat ? REG_RSI : REG_RDI];
	long flags = registers[is_openat ? REG_RDX : REG_RSI];
	int saved = errno;

	(void)number;
	registers[REG_RAX] = (flags & (O_ACCMODE | O_CREAT | O_DIRECTORY)) == O_RDONLY ? ask_opener(path) : -EACCES;
	errno = saved;
}

static int trap_opens(void)
{
	struct sigaction action = { .sa_sigaction = trapped, .sa_flags = SA_SIGINFO };

	return sigaction(SIGSYS, &action, NULL) ? -errno : 0;
}

/* The system calls that libelf, libdw, libiberty and the C library need for memory and open files. */
static const unsigned int allowed[] = {
	SYS_read,	    SYS_pread64,      SYS_readv,	 SYS_write,	  SYS_writev,	  SYS_lseek,
	SYS_close,	    SYS_fstat,	      SYS_stat,		 SYS_lstat,	  SYS_newfstatat, SYS_statx,
	SYS_getcwd,	    SYS_readlink,     SYS_readlinkat,	 SYS_fcntl,	  SYS_mmap,	  SYS_mremap,
	SYS_munmap,	    SYS_mprotect,     SYS_madvise,	 SYS_brk,	  SYS_futex,	  SYS_rt_sigaction,
	SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sendmsg,	 SYS_recvmsg,	  SYS_getpid,	  SYS_gettid,
	SYS_getrandom,	    SYS_sysinfo,      SYS_clock_gettime, SYS_sched_yield, SYS_exit,	  SYS_exit_group,
	SYS_setrlimit,
};

static const struct xp_syscall_rule trapped_calls[] = {
	{ .number = SYS_openat, .kind = XP_SYSCALL_TRAP },
	{ .number = SYS_open, .kind = XP_SYSCALL_TRAP },
};

static int confine(void)
{
	const struct xp_syscall_list list = { trapped_calls, XP_ARRAY_SIZE(trapped_calls), allowed,
					      XP_ARRAY_SIZE(allowed) };

	return xp_syscall_filter(&list);
}

static int reader(void *arg)
{
	const struct reading *reading = arg;
	FILE *out = fdopen(ANSWERS_FD, "w");

	unsetenv("DEBUGINFOD_URLS"); /* the opener queries the servers */
	set_room(reading->limits);
	add_room(FILE_FD);
	if (!out || trap_opens() || confine())
		return 1;
	return reading->read(FILE_FD, out, reading->arg) || fflush(out) ? 1 : 0;
}

/*
 * Starts a reader of fd, with a socket as its channel. When the parent closes its end of the socket, the reader can
 * open no more files. Returns 0 or -errno.
 */
static int start_reader(struct xp_child *child, const struct reading *reading, int fd, int answers)
{
	const struct xp_child_options options = {
		.name = "xprof-reader",
		.channel = XP_CHILD_SOCKET,
		.fds = { fd, answers },
		.fd_count = 2,
		.drops_privileges = true,
		.is_oom_victim = true,
		.limits = {
			.seconds = (unsigned int)(reading->limits->ns / 1000000000) + 1,
			.cpu_seconds = reading->limits->cpu_seconds,
			.address_bytes = reading->limits->address_bytes,
		},
	};

	return xp_child_start(child, &options, reader, (void *)reading);
}

/* ---- the opener ---- */

/* Arguments of the opener. */
struct job {
	pid_t parent; /* PID of the caller */
	const char *path;
	struct reading reading;
};

/* Changes the user and group for file access only. */
static void act_as(uid_t user, gid_t group, pid_t parent)
{
	setfsgid(group);
	setfsuid(user);
	xp_child_die_with(parent);
}

/*
 * Opens a path with the rights of the first file's owner. With root's rights, anyone could make a file that names a
 * secret file, and xprof would read it.
 */
static int open_as(uid_t owner, pid_t parent, const char *path)
{
	bool is_root = geteuid() == 0;
	int fd = -EACCES;

	if (is_root)
		act_as(owner, NOBODY, parent);
	/* setfsuid() does not report errors. */
	if (!is_root || (uid_t)setfsuid((uid_t)-1) == owner)
		fd = xp_file_open_regular(AT_FDCWD, path);
	if (is_root)
		act_as(0, 0, parent);
	if (fd >= 0 && !xp_file_is_elf(fd)) {
		close(fd);
		fd = -ENOEXEC;
	}
	return fd;
}

/*
 * Parses the path of a debug file, and gets the build ID from it. Returns the size of the ID, or 0 if the path is not
 * one of a debug file.
 */
static int build_id_of(const char *path, uint8_t id[64])
{
	static const char place[] = "/usr/lib/debug/.build-id/";
	const char *at = path + strlen(place);
	int bytes = 0;

	if (strncmp(path, place, strlen(place)))
		return 0;
	while (bytes < 64 && sscanf(at, "%2hhx", &id[bytes]) == 1 && strspn(at, "0123456789abcdef") >= 2) {
		bytes++;
		at += 2;
		at += bytes == 1 && *at == '/';
	}
	return strcmp(at, ".debug") ? 0 : bytes;
}

/*
 * Downloads from the debuginfod servers that the user configured. libdebuginfod is optional, so it is loaded on demand.
 */
static int download(const char *path)
{
	void *(*begin)(void);
	int (*find)(void *, const unsigned char *, int, char **);
	void *library, *client;
	uint8_t id[64];
	int bytes = getenv("DEBUGINFOD_URLS") ? build_id_of(path, id) : 0;

	library = bytes ? dlopen("libdebuginfod.so.1", RTLD_LAZY) : NULL;
	if (!library)
		return -ENOENT;
	begin = dlsym(library, "debuginfod_begin");
	find = dlsym(library, "debuginfod_find_debuginfo");
	client = begin && find ? begin() : NULL;
	return client ? find(client, id, bytes, NULL) : -ENOENT;
}

static void serve(int socket, uid_t owner, pid_t parent)
{
	char path[PATH_BYTES_MAX + 1];
	ssize_t got;
	int ignored;

	while ((got = xp_fd_message_receive(socket, path, sizeof(path) - 1, &ignored)) > 0) {
		int fd = -EACCES, err;

		if (ignored >= 0)
			close(ignored);
		path[got] = 0;
		if (path[0] == '/')
			fd = open_as(owner, parent, path);
		if (fd == -ENOENT)
			fd = download(path);
		err = fd < 0 ? fd : 0;
		if (xp_fd_message_send(socket, &err, sizeof(err), fd) < 0)
			break;
		if (fd >= 0)
			close(fd);
	}
}

static int greet(int answers, int err, int fd)
{
	char link[64], path[PATH_MAX];
	struct greeting greeting = { .err = err };
	ssize_t bytes = 0;

	if (!err) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		bytes = XP_MAX(readlink(link, path, sizeof(path) - 1), 0);
	}
	greeting.path_bytes = (uint32_t)bytes;
	err = xp_write_all(answers, &greeting, sizeof(greeting));
	return err ? err : xp_write_all(answers, path, (size_t)bytes);
}

/* Serves the reader until it ends. Returns its exit code. */
static int run_reader(const struct job *job, int fd)
{
	struct xp_child reader;
	struct stat st;

	if (fstat(fd, &st) || start_reader(&reader, &job->reading, fd, XP_CHILD_CHANNEL))
		return 1;
	close(XP_CHILD_CHANNEL); /* the caller sees EOF when the reader ends */
	serve(reader.fd, st.st_uid, job->parent);
	return xp_child_wait(reader.pid, -1) ? 1 : 0;
}

static int opener(void *arg)
{
	const struct job *job = arg;
	int fd, err;

	dup2(XP_CHILD_FDS, STDERR_FILENO); /* libdebuginfod prints its progress if the user enables that */
	if (geteuid() == 0)
		(void)setgroups(0, NULL); /* a user namespace may forbid it */
	fd = *job->path == '/' ? xp_file_open_regular(AT_FDCWD, job->path) : -ENOENT;
	err = greet(XP_CHILD_CHANNEL, fd < 0 ? fd : 0, fd);
	return fd < 0 || err ? 1 : run_reader(job, fd);
}

/* ---- the caller ---- */

/* Works like read(2), but returns EOF at the deadline. */
static ssize_t read_answers(void *cookie, char *to, size_t bytes)
{
	struct xp_confined *confined = cookie;
	struct pollfd poll_fd = { .fd = confined->opener.fd, .events = POLLIN };

	for (;;) {
		uint64_t now = xp_now_ns();
		int ready;

		confined->is_late |= now >= confined->deadline_ns;
		if (confined->is_late)
			return 0;
		ready = poll(&poll_fd, 1, (int)XP_MIN((confined->deadline_ns - now) / 1000000 + 1, (uint64_t)60000));
		if (ready > 0)
			return read(confined->opener.fd, to, bytes);
		if (ready < 0 && errno != EINTR)
			return -1;
	}
}

static int open_answers(struct xp_confined *confined)
{
	static const cookie_io_functions_t functions = { .read = read_answers };

	confined->answers = fopencookie(confined, "r", functions);
	return confined->answers ? 0 : -ENOMEM;
}

static int start_opener(struct xp_confined *confined, struct job *job)
{
	const struct xp_child_options options = {
		.channel = XP_CHILD_PIPE,
		.fds = { STDERR_FILENO },
		.fd_count = 1,
		/*
		 * Other users may see only files that they can read without xprof's capabilities. Root's opener changes
		 * its user instead.
		 */
		.drops_privileges = geteuid() != 0,
	};

	return open_answers(confined) ?: xp_child_start(&confined->opener, &options, opener, job);
}

static int get_greeting(struct xp_confined *confined)
{
	struct greeting greeting;

	if (fread(&greeting, sizeof(greeting), 1, confined->answers) != 1)
		return confined->is_late ? -ETIMEDOUT : -EIO;
	if (greeting.err)
		return greeting.err;
	if (greeting.path_bytes >= sizeof(confined->real_path) ||
	    fread(confined->real_path, 1, greeting.path_bytes, confined->answers) != greeting.path_bytes)
		return -EIO;
	return 0;
}

int xp_confined_start(struct xp_confined **confined, const char *path, xp_confined_read *read, const void *arg,
		      const struct xp_confined_limits *limits)
{
	struct xp_confined *new = calloc(1, sizeof(*new));
	struct job job = { getpid(), path, { read, arg, limits } };
	int err;

	*confined = NULL;
	if (!new)
		return -ENOMEM;
	new->deadline_ns = xp_now_ns() + limits->ns;
	err = start_opener(new, &job);
	if (!err)
		err = get_greeting(new);
	if (err)
		xp_confined_end(new);
	else
		*confined = new;
	return err;
}

int xp_confined_start_fd(struct xp_confined **confined, int fd, xp_confined_read *read, const void *arg,
			 const struct xp_confined_limits *limits)
{
	const struct reading reading = { read, arg, limits };
	struct xp_confined *new = calloc(1, sizeof(*new));
	int pipe[2], err;

	*confined = NULL;
	if (!new)
		return -ENOMEM;
	new->deadline_ns = xp_now_ns() + limits->ns;
	err = open_answers(new);
	if (!err && pipe2(pipe, O_CLOEXEC))
		err = -errno;
	if (err)
		goto out;
	err = start_reader(&new->opener, &reading, fd, pipe[1]);
	close(pipe[1]);
	if (!err)
		close(new->opener.fd);
	else
		close(pipe[0]);
	new->opener.fd = pipe[0];
out:
	if (err)
		xp_confined_end(new);
	else
		*confined = new;
	return err;
}

FILE *xp_confined_answers(const struct xp_confined *confined)
{
	return confined->answers;
}

const char *xp_confined_real_path(const struct xp_confined *confined)
{
	return confined->real_path;
}

/*
 * Waits for the opener, whose death also kills the reader. The opener exits with the reader's exit code, unless it is
 * killed before. Abandons an opener that hangs in a file system and ignores signals. Returns whether the reader
 * succeeded.
 */
static bool end_opener(struct xp_confined *confined)
{
	struct pollfd answers = { .fd = confined->opener.fd, .events = POLLIN };
	int code = -EAGAIN;

	/* If the caller stopped after the last answer, EOF is not read yet but arrives soon. */
	if (!confined->is_late && !feof(confined->answers) && poll(&answers, 1, END_MS) > 0)
		(void)fgetc(confined->answers);
	if (feof(confined->answers) && !confined->is_late)
		code = xp_child_wait(confined->opener.pid, REAP_MS);
	if (code == -EAGAIN)
		xp_child_kill(&confined->opener, REAP_MS);
	else
		close(confined->opener.fd);
	return !code;
}

enum xp_confined_end xp_confined_end(struct xp_confined *confined)
{
	bool is_done = confined->opener.pid && end_opener(confined);
	enum xp_confined_end end = confined->is_late ? XP_CONFINED_LATE
				   : is_done	     ? XP_CONFINED_DONE
						     : XP_CONFINED_FAILED;

	if (confined->answers)
		fclose(confined->answers);
	free(confined);
	return end;
}
