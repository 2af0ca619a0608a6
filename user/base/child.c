// SPDX-License-Identifier: BSD-2-Clause
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534

void xp_child_reset_signals(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void limit(int resource, rlim_t soft, rlim_t hard)
{
	const struct rlimit limits = { soft, hard };

	setrlimit(resource, &limits);
}

void xp_child_limit(const struct xp_child_limits *limits)
{
	alarm(limits->seconds);
	if (limits->cpu_seconds)
		limit(RLIMIT_CPU, limits->cpu_seconds, limits->cpu_seconds + 1);
	limit(RLIMIT_AS, limits->address_bytes, limits->address_bytes);
	if (limits->data_bytes)
		limit(RLIMIT_DATA, limits->data_bytes, limits->data_bytes);
	limit(RLIMIT_CORE, 0, 0);
}

static int become_nobody(void)
{
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
		return -errno;
	return 0;
}

int xp_child_drop_privileges(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	/* A user namespace may not map nobody. The steps below are the ones that matter. */
	if (geteuid() == 0)
		(void)become_nobody();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_capset, &header, none) ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return -errno;
	return 0;
}

int xp_child_keep_fds(const int *fds, int count)
{
	int high[XP_CHILD_FDS_MAX], null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return -errno;
	/* Move the descriptors out of the way of their new numbers. */
	for (int i = 0; i < count; i++) {
		high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3 + count);
		if (high[i] < 0)
			return -errno;
	}
	for (int i = 0; i < 3 + count; i++)
		if (dup2(i < 3 ? null : high[i - 3], i) < 0)
			return -errno;
	return close_range(3 + count, ~0u, 0) ? -errno : 0;
}

int xp_child_keep_fd(int fd)
{
	return xp_child_keep_fds(&fd, 1);
}
