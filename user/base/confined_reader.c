// SPDX-License-Identifier: BSD-2-Clause
#include "base/confined_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/child.h"
#include "base/fd_message.h"
#include "base/syscall_filter.h"
#include "base/util.h"

enum { OPENER_FD = XP_CHILD_CHANNEL, FILE_FD = XP_CHILD_FDS, ANSWERS_FD };

/* ---- limits in proportion to the files ---- */

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

/* ---- opening by path: a trapped system call becomes a request ---- */

static long ask_opener(const char *path)
{
	size_t bytes = strnlen(path, XP_CONFINED_PATH_BYTES_MAX + 1);
	int err, fd;
	ssize_t got;

	if (!bytes)
		return -ENOENT;
	if (bytes > XP_CONFINED_PATH_BYTES_MAX)
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

/* ---- the process ---- */

static int run(void *arg)
{
	const struct xp_confined_reading *reading = arg;
	FILE *out = fdopen(ANSWERS_FD, "w");

	unsetenv("DEBUGINFOD_URLS"); /* the opener queries the servers */
	set_room(reading->limits);
	add_room(FILE_FD);
	if (!out || trap_opens() || confine())
		return 1;
	return reading->read(FILE_FD, out, reading->arg) || fflush(out) ? 1 : 0;
}

int xp_confined_reader_start(struct xp_child *reader, const struct xp_confined_reading *reading, int fd, int answers)
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

	return xp_child_start(reader, &options, run, (void *)reading);
}
