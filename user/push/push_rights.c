// SPDX-License-Identifier: BSD-2-Clause
#include "push/push_rights.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/syscall_filter.h"
#include "base/util.h"

/* ---- files ---- */

#define READS (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
/* All rights of the first version, Linux 5.13. */
#define HANDLED (LANDLOCK_ACCESS_FS_MAKE_SYM * 2 - 1)

/* Name resolution, configuration and certificates of OpenSSL, libraries of the name service. */
static const char *const readable[] = {
	"/etc/hosts",
	"/etc/resolv.conf",
	"/etc/nsswitch.conf",
	"/etc/host.conf",
	"/etc/gai.conf",
	"/etc/services",
	"/etc/ld.so.cache",
	"/run/systemd/resolve",
	"/etc/ssl",
	"/usr/lib/ssl",
	"/usr/share/ca-certificates",
	"/usr/local/share/ca-certificates",
	"/usr/lib",
	"/lib",
	"/lib64",
};

static void allow_reading(int rules, const char *path)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = READS };
	struct stat st;

	rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
	if (rule.parent_fd < 0)
		return;
	if (!fstat(rule.parent_fd, &st) && !S_ISDIR(st.st_mode))
		rule.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;
	syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	close(rule.parent_fd);
}

static int drop_files(void)
{
	const struct landlock_ruleset_attr handled = { .handled_access_fs = HANDLED };
	int rules = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0), err = 0;

	if (rules < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
	for (size_t i = 0; i < XP_ARRAY_SIZE(readable); i++)
		allow_reading(rules, readable[i]);
	if (syscall(SYS_landlock_restrict_self, rules, 0))
		err = -errno;
	close(rules);
	return err;
}

/* ---- system calls ---- */

#define WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND)

/*
 * Files are only read. Sockets are those of the Internet, and netlink's, by which the C library lists addresses; the
 * pair is libcurl's own. Threads resolve names. The C library creates threads by clone() where clone3(), whose flags no
 * filter can read, does not exist.
 */
static const struct xp_syscall_rule rules[] = {
	{ SYS_openat, XP_SYSCALL_ALLOW_IF_CLEAR, 2, WRITES },
	{ SYS_open, XP_SYSCALL_ALLOW_IF_CLEAR, 1, WRITES },
	{ SYS_socket, XP_SYSCALL_ALLOW_IF_EQUAL, 0, AF_INET },
	{ SYS_socket, XP_SYSCALL_ALLOW_IF_EQUAL, 0, AF_INET6 },
	{ SYS_socket, XP_SYSCALL_ALLOW_IF_EQUAL, 0, AF_NETLINK },
	/* Only streams: a datagram socket can be connected to other UNIX sockets. The types are 1 to 3, and 5. */
	{ SYS_socketpair, XP_SYSCALL_ALLOW_IF_CLEAR, 1, SOCK_DGRAM | 4 },
	{ SYS_clone, XP_SYSCALL_ALLOW_IF_SET, 0, CLONE_THREAD },
	{ SYS_clone3, XP_SYSCALL_FAIL, 0, ENOSYS },
};

static const unsigned int allowed[] = {
	SYS_connect,
	SYS_bind,
	SYS_getsockname,
	SYS_getpeername,
	SYS_getsockopt,
	SYS_setsockopt,
	SYS_shutdown,
	SYS_sendto,
	SYS_recvfrom,
	SYS_sendmsg,
	SYS_recvmsg,
	SYS_sendmmsg,
	SYS_recvmmsg,
	SYS_poll,
	SYS_ppoll,
	SYS_select,
	SYS_pselect6,
	SYS_pipe,
	SYS_pipe2,
	SYS_eventfd2,
	SYS_fcntl,
	SYS_ioctl,
	SYS_epoll_create1,
	SYS_epoll_ctl,
	SYS_epoll_wait,
	SYS_epoll_pwait,
	SYS_read,
	SYS_pread64,
	SYS_readv,
	SYS_write,
	SYS_writev,
	SYS_lseek,
	SYS_close,
	SYS_fstat,
	SYS_stat,
	SYS_lstat,
	SYS_newfstatat,
	SYS_statx,
	SYS_getdents64,
	SYS_access,
	SYS_faccessat,
	SYS_faccessat2,
	SYS_getcwd,
	SYS_readlink,
	SYS_readlinkat,
	SYS_mmap,
	SYS_mremap,
	SYS_munmap,
	SYS_mprotect,
	SYS_madvise,
	SYS_brk,
	SYS_futex,
	SYS_set_robust_list,
	SYS_rseq,
	SYS_sigaltstack,
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_sched_yield,
	SYS_sched_getaffinity,
	SYS_getpid,
	SYS_gettid,
	SYS_getuid,
	SYS_geteuid,
	SYS_getgid,
	SYS_getegid,
	SYS_uname,
	SYS_getrandom,
	SYS_sysinfo,
	SYS_clock_gettime,
	SYS_gettimeofday,
	SYS_time,
	SYS_nanosleep,
	SYS_clock_nanosleep,
	SYS_getrlimit,
	SYS_exit,
	SYS_exit_group,
};

int xp_push_rights_drop(void)
{
	const struct xp_syscall_list list = { rules, XP_ARRAY_SIZE(rules), allowed, XP_ARRAY_SIZE(allowed) };

	return drop_files() ?: xp_syscall_filter(&list);
}
