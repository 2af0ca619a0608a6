// SPDX-License-Identifier: BSD-2-Clause
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/small_file.h"
#include "base/util.h"

#define NOBODY 65534

/* ---- the child ---- */

/*
 * Resets signals to the state of a new program: default actions, none blocked. Ignores the signals that end xprof,
 * because a terminal sends them to the child, too, and xprof needs the child until xprof has finished.
 */
static void reset_signals(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP };
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	for (size_t i = 0; i < XP_ARRAY_SIZE(ends); i++)
		signal(ends[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void become_oom_victim(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, "1000", 4);
	close(fd);
}

static int keep_fds(int channel, const int *fds, int count)
{
	int high[1 + XP_CHILD_FDS_MAX], null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int end = XP_CHILD_FDS + count;

	if (null < 0)
		return -errno;
	/* Move the descriptors out of the way of their new numbers. */
	for (int i = 0; i < 1 + count; i++) {
		high[i] = fcntl(i ? fds[i - 1] : channel, F_DUPFD_CLOEXEC, end);
		if (high[i] < 0 && errno == EBADF)
			high[i] = fcntl(null, F_DUPFD_CLOEXEC, end);
		if (high[i] < 0)
			return -errno;
	}
	for (int i = 0; i < end; i++)
		if (dup2(i < XP_CHILD_CHANNEL ? null : high[i - XP_CHILD_CHANNEL], i) < 0)
			return -errno;
	return close_range(end, ~0u, 0) ? -errno : 0;
}

static int become_nobody(void)
{
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
		return -errno;
	return 0;
}

/* After an error, the child may still have capabilities and must not continue. */
static int drop_privileges(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	/*
	 * Fails in a user namespace that does not map nobody. The child is confined anyway: it loses its capabilities
	 * below.
	 */
	if (geteuid() == 0)
		(void)become_nobody();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_capset, &header, none) ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return -errno;
	return 0;
}

void xp_child_die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != parent)
		_exit(1);
}

static void limit(int resource, rlim_t soft, rlim_t hard)
{
	const struct rlimit limits = { soft, hard };

	if (hard)
		setrlimit((enum __rlimit_resource)resource, &limits);
}

/* Returns the size of the address space that fork() copied from the parent, in bytes. 0: unknown. */
static rlim_t inherited_bytes(void)
{
	uint64_t pages;

	return xp_small_file_number("/proc/self/statm", &pages) ? 0 : pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void set_limits(const struct xp_child_limits *limits)
{
	rlim_t address_bytes = limits->address_bytes ? limits->address_bytes + inherited_bytes() : 0;
	const struct rlimit none = { 0, 0 };

	alarm(limits->seconds);
	limit(RLIMIT_CPU, limits->cpu_seconds, limits->cpu_seconds ? limits->cpu_seconds + 1 : 0);
	limit(RLIMIT_AS, address_bytes, address_bytes);
	limit(RLIMIT_DATA, limits->data_bytes, limits->data_bytes);
	limit(RLIMIT_FSIZE, limits->file_bytes, limits->file_bytes);
	if (limits->no_children)
		setrlimit(RLIMIT_NPROC, &none);
	setrlimit(RLIMIT_CORE, &none);
}

static __attribute__((noreturn)) void be_child(pid_t parent, const struct xp_child_options *options, int channel,
					       xp_child_main *run, void *arg)
{
	reset_signals();
	if (options->is_oom_victim)
		become_oom_victim();
	if ((!options->keeps_fds && keep_fds(channel, options->fds, options->fd_count)) ||
	    (options->drops_privileges && drop_privileges()))
		_exit(1);
	if (options->outlives_parent)
		setsid();
	else
		xp_child_die_with(parent);
	if (options->name)
		prctl(PR_SET_NAME, options->name, 0, 0, 0);
	set_limits(&options->limits);
	_exit(run(arg));
}

/* ---- the parent ---- */

/* ends[0] belongs to the parent, ends[1] to the child. */
static int open_channel(enum xp_child_channel channel, int ends[2])
{
	ends[0] = ends[1] = -1;
	switch (channel) {
	case XP_CHILD_SOCKET:
		return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) ? -errno : 0;
	case XP_CHILD_PIPE:
		return pipe2(ends, O_CLOEXEC) ? -errno : 0;
	default:
		return 0;
	}
}

int xp_child_start(struct xp_child *child, const struct xp_child_options *options, xp_child_main *run, void *arg)
{
	pid_t parent = getpid(), pid;
	int ends[2], err;

	*child = (struct xp_child){ .fd = -1 };
	err = open_channel(options->channel, ends);
	if (err)
		return err;
	pid = fork();
	if (!pid)
		be_child(parent, options, ends[1], run, arg);
	if (pid > 0)
		*child = (struct xp_child){ pid, ends[0] };
	else
		err = -errno;
	if (err && ends[0] >= 0)
		close(ends[0]);
	if (ends[1] >= 0)
		close(ends[1]);
	return err;
}

/*
 * Waits until the process ends, or timeout_ms pass. Returns true if the process is still running. Uses a pidfd:
 * waitpid(2) does not find a child that a task of shield.h created.
 */
static bool outlasts(pid_t pid, int timeout_ms)
{
	struct pollfd end = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	uint64_t deadline_ns = xp_now_ns() + (uint64_t)timeout_ms * 1000000, now_ns;
	bool is_gone = end.fd < 0 && errno == ESRCH;
	int ready = 0;

	while (!is_gone && ready <= 0 && (now_ns = xp_now_ns()) < deadline_ns)
		ready = poll(&end, 1, (int)((deadline_ns - now_ns) / 1000000 + 1));
	if (end.fd >= 0)
		close(end.fd);
	return end.fd >= 0 && ready <= 0;
}

int xp_child_wait(pid_t pid, int timeout_ms)
{
	bool is_running = timeout_ms > 0 && outlasts(pid, timeout_ms);
	int status;
	pid_t ended;

	do {
		ended = waitpid(pid, &status, timeout_ms < 0 ? 0 : WNOHANG);
	} while (ended < 0 && errno == EINTR);
	if (ended < 0 && (errno != ECHILD || !is_running))
		return -errno;
	if (ended <= 0)
		return -EAGAIN;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

bool xp_child_kill(struct xp_child *child, int timeout_ms)
{
	kill(child->pid, SIGKILL);
	if (child->fd >= 0)
		close(child->fd);
	child->fd = -1;
	return xp_child_wait(child->pid, timeout_ms) != -EAGAIN;
}
