// SPDX-License-Identifier: BSD-2-Clause
#include "base/confined.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/confined_reader.h"
#include "base/fd_message.h"
#include "base/file_view.h"
#include "base/util.h"

#define NOBODY 65534
#define REAP_MS 1000
#define END_MS 200

struct xp_confined {
	pid_t opener;
	int fd; /* read end of the answer pipe */
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

/* ---- the opener ---- */

static bool is_elf(int fd)
{
	char magic[SELFMAG];

	return pread(fd, magic, sizeof(magic), 0) == sizeof(magic) && !memcmp(magic, ELFMAG, SELFMAG);
}

/* Dies with the process that forked this one. A change of user clears that setting, so it is set again. */
static void die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != parent)
		_exit(1);
}

/* Changes user and group for file access only. */
static void act_as(uid_t user, gid_t group, pid_t parent)
{
	setfsgid(group);
	setfsuid(user);
	die_with(parent);
}

/* Checks access as the owner of the file: otherwise anyone could make a file that has xprof read any other file. */
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
	if (fd >= 0 && !is_elf(fd)) {
		close(fd);
		fd = -ENOEXEC;
	}
	return fd;
}

/* The build id of the debug file that this path names. Returns its size, or 0 if the path names no such file. */
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
	char path[XP_CONFINED_PATH_BYTES_MAX + 1];
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
static int start_reader(pid_t parent, int fd, int answers, xp_confined_read *read, const void *arg,
			const struct xp_confined_limits *limits)
{
	pid_t self = getpid(), pid;
	int ends[2], status;
	struct stat st;

	if (fstat(fd, &st) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return 1;
	pid = fork();
	if (!pid)
		xp_confined_reader(self, fd, answers, ends[1], read, arg, limits);
	close(ends[1]);
	close(answers); /* the caller sees EOF when the reader ends */
	if (pid > 0)
		serve(ends[0], st.st_uid, parent);
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 1;
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static __attribute__((noreturn)) void opener(pid_t parent, const char *path, int answers, xp_confined_read *read,
					     const void *arg, const struct xp_confined_limits *limits)
{
	int fd, err;

	die_with(parent);
	xp_child_reset_signals();
	if (geteuid() == 0)
		(void)setgroups(0, NULL); /* a user namespace may forbid it */
	fd = *path == '/' ? xp_file_open_regular(AT_FDCWD, path) : -ENOENT;
	err = greet(answers, fd < 0 ? fd : 0, fd);
	if (fd < 0 || err)
		_exit(1);
	_exit(start_reader(parent, fd, answers, read, arg, limits));
}

/* ---- the caller ---- */

/* Works like read(2), but returns EOF at the deadline. */
static ssize_t read_answers(void *cookie, char *to, size_t bytes)
{
	struct xp_confined *confined = cookie;
	struct pollfd poll_fd = { .fd = confined->fd, .events = POLLIN };

	for (;;) {
		uint64_t now = xp_now_ns();
		int ready;

		confined->is_late |= now >= confined->deadline_ns;
		if (confined->is_late)
			return 0;
		ready = poll(&poll_fd, 1, (int)XP_MIN((confined->deadline_ns - now) / 1000000 + 1, (uint64_t)60000));
		if (ready > 0)
			return read(confined->fd, to, bytes);
		if (ready < 0 && errno != EINTR)
			return -1;
	}
}

static int start_opener(struct xp_confined *confined, const char *path, xp_confined_read *read, const void *arg,
			const struct xp_confined_limits *limits)
{
	static const cookie_io_functions_t functions = { .read = read_answers };
	pid_t self = getpid();
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	confined->fd = ends[0];
	confined->answers = fopencookie(confined, "r", functions);
	confined->opener = confined->answers ? fork() : -1;
	if (!confined->opener)
		opener(self, path, ends[1], read, arg, limits);
	close(ends[1]);
	return confined->opener < 0 ? -errno : 0;
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
	int err;

	*confined = NULL;
	if (!new)
		return -ENOMEM;
	new->fd = -1;
	new->opener = -1;
	new->deadline_ns = xp_now_ns() + limits->ns;
	err = start_opener(new, path, read, arg, limits);
	if (!err)
		err = get_greeting(new);
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

/* Returns the exit code of the opener, or -1 if it has not ended yet. */
static int reap(pid_t pid, int pid_fd, int timeout_ms)
{
	struct pollfd poll_fd = { .fd = pid_fd, .events = POLLIN };
	int status;

	(void)poll(&poll_fd, 1, timeout_ms);
	if (waitpid(pid, &status, WNOHANG) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/*
 * The reader dies with the opener. The opener reports the reader's exit code if it gets the time to. An opener that
 * hangs in a file system and ignores signals is abandoned.
 */
static int end_opener(const struct xp_confined *confined)
{
	int pid_fd = (int)syscall(SYS_pidfd_open, confined->opener, 0), code = -1;
	struct pollfd answers = { .fd = confined->fd, .events = POLLIN };

	/* A caller that has read all answers may not have seen EOF, which is imminent. */
	if (!confined->is_late && !feof(confined->answers) && poll(&answers, 1, END_MS) > 0)
		(void)fgetc(confined->answers);
	if (feof(confined->answers) && !confined->is_late)
		code = reap(confined->opener, pid_fd, REAP_MS);
	if (code < 0) {
		kill(confined->opener, SIGKILL);
		code = reap(confined->opener, pid_fd, REAP_MS) ? 1 : 0;
	}
	if (pid_fd >= 0)
		close(pid_fd);
	return code;
}

enum xp_confined_end xp_confined_end(struct xp_confined *confined)
{
	int code = confined->opener > 0 ? end_opener(confined) : 1;
	enum xp_confined_end end = code ? XP_CONFINED_FAILED : XP_CONFINED_DONE;

	if (confined->is_late)
		end = XP_CONFINED_LATE;
	if (confined->answers)
		fclose(confined->answers);
	if (confined->fd >= 0)
		close(confined->fd);
	free(confined);
	return end;
}
