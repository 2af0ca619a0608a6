// SPDX-License-Identifier: BSD-2-Clause
#include "jit/src_jvm.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/child.h"
#include "base/util.h"
#include "target/untrusted_file.h"
#include "target/status.h"

#define CHILD_SECONDS 10
#define LISTEN_TRIES 50 /* number of 100 ms waits for the socket, as in jcmd */
#define PAUSE_MS 100
#define ASK_PAUSE_NS 2000000000ull
#define PATIENCE_MS 5000	/* wait for a last perf map at the end of a recording */
#define END_MS 100		/* wait for the child after it was killed */
#define UNREADY_NS 500000000ull /* first pause while the JVM starts; doubles after each attempt */
#define UNREADY_MAX 7		/* maximum number of attempts, half a minute in total */

/* protocol version, command, three arguments */
static const char request[] = "1\0jcmd\0Compiler.perfmap\0\0";

/* Returns whether the process has a JVM mapped. */
static bool is_jvm(const struct xp_address_space *space)
{
	static const char name[] = "/libjvm.so";

	for (size_t i = 0; i < space->count; i++) {
		const char *path = space->vmas[i].file->path;
		size_t length = strlen(path);

		if (space->vmas[i].file->kind == XP_FILE_DISK && length >= strlen(name) &&
		    !strcmp(path + length - strlen(name), name))
			return true;
	}
	return false;
}

/* ---- the child process: returns errors as exit codes ---- */

struct job {
	pid_t parent;
	const struct xp_jit_src_jvm *jvm;
};

struct visit {
	int pidfd;
	struct xp_target_status status;
	char signal_name[32]; /* file name in the target's /tmp */
	char socket_name[32];
};

/* Enters the target's /tmp and opens a pidfd of the process. Requires root. */
static int enter(struct visit *visit, pid_t pid, uint64_t start_time)
{
	int dir = xp_target_path_find(pid, "/tmp");

	if (dir < 0)
		return -dir;
	if (fchdir(dir))
		return errno;
	visit->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (visit->pidfd < 0)
		return errno;
	if (xp_target_status(&visit->status, pid, start_time))
		return ESRCH;
	/* The process may have called execve() since the first check; SIGQUIT would then kill it. */
	if (!(visit->status.caught & 1ull << (SIGQUIT - 1)))
		return EINVAL;
	snprintf(visit->signal_name, sizeof(visit->signal_name), ".attach_pid%d", visit->status.inner_pid);
	snprintf(visit->socket_name, sizeof(visit->socket_name), ".java_pid%d", visit->status.inner_pid);
	return 0;
}

static int become(const struct xp_target_status *status)
{
	if (status->euid == geteuid() && status->egid == getegid())
		return 0;
	if (setgroups(0, NULL) || setresgid(status->egid, status->egid, status->egid) ||
	    setresuid(status->euid, status->euid, status->euid))
		return errno;
	return 0;
}

static bool listens(const struct visit *visit)
{
	struct stat st;

	return !fstatat(AT_FDCWD, visit->socket_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISSOCK(st.st_mode) &&
	       st.st_uid == visit->status.euid;
}

/* Makes the JVM listen on its socket. The JVM does not stop listening later. */
static int wake(const struct visit *visit)
{
	int fd = open(visit->signal_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), err = 0;

	if (fd < 0)
		return errno;
	close(fd);
	if (syscall(SYS_pidfd_send_signal, visit->pidfd, SIGQUIT, NULL, 0))
		err = errno;
	for (int tries = 0; !err && !listens(visit); tries++) {
		if (tries == LISTEN_TRIES)
			err = ETIMEDOUT;
		usleep(PAUSE_MS * 1000);
	}
	unlink(visit->signal_name);
	return err;
}

/* Sends the request and reads the response. The first line of the response is 0 or an error of the JVM. */
static int ask(int fd)
{
	char answer[4096];
	ssize_t n = write(fd, request, sizeof(request));
	bool good;

	if (n != sizeof(request))
		return n < 0 ? errno : EPIPE;
	n = read(fd, answer, sizeof(answer));
	good = n >= 2 && answer[0] == '0' && answer[1] == '\n';
	/* The JVM closes the socket when it has written the map. */
	while (n > 0)
		n = read(fd, answer, sizeof(answer));
	return n < 0 ? errno : good ? 0 : EPERM;
}

static int call(const struct visit *visit)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return errno;
	memcpy(address.sun_path, visit->socket_name, sizeof(visit->socket_name));
	err = connect(fd, (const struct sockaddr *)&address, sizeof(address)) ? errno : ask(fd);
	close(fd);
	return err;
}

static int do_visit(void *arg)
{
	const struct job *job = arg;
	struct visit visit = { 0 };
	int err = enter(&visit, job->jvm->pid, job->jvm->start_time);

	if (!err)
		err = become(&visit.status);
	xp_child_die_with(job->parent);
	if (!err && !listens(&visit))
		err = wake(&visit);
	return err ? err : call(&visit);
}

/* ---- one request ---- */

/*
 * Starts a request. Returns 0 or -errno: -EINVAL if the process has no handler for SIGQUIT (-Xrs, or no JVM), -ESRCH if
 * it has exited.
 */
static int start(struct xp_jit_src_jvm *jvm)
{
	static const struct xp_child_options options = { .limits.seconds = CHILD_SECONDS };
	struct job job = { getpid(), jvm };
	struct xp_target_status status;
	struct xp_child child;
	int err;

	if (jvm->child)
		return -EBUSY;
	if (xp_target_status(&status, jvm->pid, jvm->start_time))
		return -ESRCH;
	if (!(status.caught & 1ull << (SIGQUIT - 1)))
		return -EINVAL;
	err = xp_child_start(&child, &options, do_visit, &job);
	jvm->child = child.pid;
	return err;
}

/*
 * Waits at most timeout_ms for the result of the request. Returns 0 if the map is written, or -errno: -EAGAIN if the
 * JVM is still writing it, -ENOENT without a request, -ETIMEDOUT.
 */
static int poll_request(struct xp_jit_src_jvm *jvm, unsigned int timeout_ms)
{
	int code;

	if (!jvm->child)
		return -ENOENT;
	code = xp_child_wait(jvm->child, (int)timeout_ms);
	if (code == -EAGAIN)
		return -EAGAIN;
	jvm->child = 0;
	return code < 0 ? -ETIMEDOUT : -code;
}

void xp_jit_src_jvm_stop(struct xp_jit_src_jvm *jvm)
{
	struct xp_child child = { jvm->child, -1 };

	if (jvm->child)
		xp_child_kill(&child, END_MS); /* abandon a child that hangs in a file system */
	jvm->child = 0;
}

/* ---- when to send a request ---- */

/* Returns true only if the JVM may have new code. */
static bool is_time_to_ask(const struct xp_jit_src_jvm *jvm, const struct xp_clock *clock, uint64_t now_tsc)
{
	uint64_t pause_ns = jvm->unready ? UNREADY_NS << (jvm->unready - 1) : ASK_PAUSE_NS;

	if (!jvm->asked_tsc)
		return true;
	return (jvm->unready || jvm->is_wanted) && now_tsc - jvm->asked_tsc > xp_clock_ticks(clock, pause_ns);
}

/* Sends a request. Returns -EINVAL if the JVM does not handle the signal (yet). */
static int ask_at(struct xp_jit_src_jvm *jvm, uint64_t now_tsc)
{
	int err = start(jvm);

	jvm->asked_tsc = now_tsc;
	if (err)
		return err;
	jvm->is_wanted = false;
	jvm->unready = 0;
	return 0;
}

static int get_result(struct xp_jit_src_jvm *jvm, unsigned int timeout_ms)
{
	int err = poll_request(jvm, timeout_ms);

	if (!err)
		jvm->known_tsc = jvm->asked_tsc;
	return err;
}

static void warn_of(const struct xp_jit_src_jvm *jvm, const char *why)
{
	xp_warn("process %d: the JVM did not write its perf map: %s; it needs JDK 17 or later, without "
		"-XX:+DisableAttachMechanism and -Xrs; another user's JVM needs sudo",
		jvm->pid, why);
}

void xp_jit_src_jvm_refresh(struct xp_jit_src_jvm *jvm, const struct xp_address_space *space,
			    const struct xp_clock *clock, uint64_t now_tsc)
{
	int err;

	if (!jvm->asked_tsc)
		jvm->may_ask = is_jvm(space);
	if (!jvm->may_ask)
		return;
	err = get_result(jvm, 0);
	if (err == -EAGAIN)
		return;
	if (!err || err == -ENOENT)
		err = is_time_to_ask(jvm, clock, now_tsc) ? ask_at(jvm, now_tsc) : 0;
	if (err == -EINVAL && ++jvm->unready < UNREADY_MAX)
		return;
	if (!err)
		return;
	jvm->may_ask = false;
	if (err != -ESRCH && err != -EINVAL)
		warn_of(jvm, strerror(-err));
}

bool xp_jit_src_jvm_want(struct xp_jit_src_jvm *jvm, uint64_t tsc)
{
	bool may_tell = jvm->may_ask && tsc > jvm->known_tsc;

	jvm->is_wanted |= may_tell;
	return may_tell;
}

static unsigned int patience_ms(uint64_t end_ns)
{
	uint64_t now_ns = xp_now_ns();

	return now_ns < end_ns ? (unsigned int)XP_MIN((end_ns - now_ns) / 1000000, (uint64_t)PATIENCE_MS) : 0;
}

static void ask_last(struct xp_jit_src_jvm *jvm, uint64_t now_tsc, uint64_t end_ns)
{
	int err = get_result(jvm, patience_ms(end_ns));

	if (jvm->may_ask && jvm->is_wanted && (!err || err == -ENOENT) && !ask_at(jvm, now_tsc))
		get_result(jvm, patience_ms(end_ns));
}

void xp_jit_src_jvm_finish(struct xp_jit_src_jvm *jvm, bool is_over, uint64_t now_tsc, uint64_t end_ns)
{
	if (!is_over)
		ask_last(jvm, now_tsc, end_ns);
	if (jvm->unready && jvm->is_wanted)
		warn_of(jvm, "it does not handle SIGQUIT");
	jvm->may_ask = false;
}
