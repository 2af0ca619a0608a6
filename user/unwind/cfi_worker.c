// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/fd_message.h"
#include "base/util.h"
#include "unwind/cfi_build.h"
#include "unwind/cfi_table.h"

#define TABLE_BYTES_MAX ((rlim_t)XP_CFI_ROWS_MAX * sizeof(struct xp_cfi_row) + (2u << 20))

/* Samples wait for its tables, for a limited time: on a busy machine it must not queue behind everything else. */
#define WORKER_NICE (-10)

static const struct xp_child_limits limits = {
	.seconds = XP_CFI_BUILD_SECONDS,
	.cpu_seconds = XP_CFI_BUILD_CPU_SECONDS,
	.address_bytes = (rlim_t)8 << 30, /* a separate debug file is mapped in full */
	.data_bytes = (rlim_t)512 << 20,
};

/* ---- one file ---- */

/* Dies with the process that forked this one. A change of user resets this. */
static void die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != parent)
		_exit(1);
}

/* A terminal's ^C is meant for xprof, which needs tables until it has finished. */
static void ignore_ends(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP };

	xp_child_reset_signals();
	for (size_t i = 0; i < XP_ARRAY_SIZE(ends); i++)
		signal(ends[i], SIG_IGN);
}

static __attribute__((noreturn)) void build(pid_t parent, int socket, const struct xp_cfi_request *request, int fd,
					    int to_fd)
{
	const struct rlimit no_children = { 0, 0 }, table_bytes = { TABLE_BYTES_MAX, TABLE_BYTES_MAX };

	close(socket);
	die_with(parent);
	if (request->is_foreign)
		setpriority(PRIO_PROCESS, 0, 0);
	xp_child_limit(&limits);
	setrlimit(RLIMIT_NPROC, &no_children);
	setrlimit(RLIMIT_FSIZE, &table_bytes);
	_exit(-xp_cfi_build(fd, *request->path ? request->path : NULL, request->start, request->end, to_fd));
}

/* The only other descriptor belonged to the child, which is dead: no one writes to the table any more. */
static int seal(int fd)
{
	return fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) ? -errno : 0;
}

static int build_in_child(int socket, const struct xp_cfi_request *request, int fd, int to_fd)
{
	pid_t self = getpid(), pid = fork();
	int status;

	if (pid < 0)
		return -errno;
	if (!pid)
		build(self, socket, request, fd, to_fd);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status))
		return -EIO;
	return WEXITSTATUS(status) ? -WEXITSTATUS(status) : seal(to_fd);
}

static int serve(int socket, const struct xp_cfi_request *request, int fd)
{
	int table = memfd_create("xprof-cfi", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct xp_cfi_answer answer = { .id = request->id, .err = table < 0 ? -errno : 0 };
	ssize_t sent;

	if (!answer.err)
		answer.err = fd < 0 ? -EBADF : build_in_child(socket, request, fd, table);
	sent = xp_fd_message_send(socket, &answer, sizeof(answer), answer.err ? -1 : table);
	if (table >= 0)
		close(table);
	return sent < 0 ? (int)sent : 0;
}

/* ---- the worker ---- */

static __attribute__((noreturn)) void work(pid_t parent, int socket)
{
	static struct xp_cfi_request request;
	ssize_t got;
	int fd, err = 0;

	/* Without the privilege the priority stays unchanged. */
	setpriority(PRIO_PROCESS, 0, WORKER_NICE);
	if (xp_child_keep_fd(socket) || xp_child_drop_privileges())
		_exit(1);
	socket = 3;
	die_with(parent);
	ignore_ends();
	prctl(PR_SET_NAME, "xprof-cfi", 0, 0, 0);
	unsetenv("DEBUGINFOD_URLS"); /* no table is worth a download */
	if (chdir("/"))
		_exit(1);
	while (!err && (got = xp_fd_message_receive(socket, &request, sizeof(request) - 1, &fd)) >
			   (ssize_t)offsetof(struct xp_cfi_request, path)) {
		((char *)&request)[got] = 0;
		err = serve(socket, &request, fd);
		if (fd >= 0)
			close(fd);
	}
	_exit(err ? 1 : 0);
}

int xp_cfi_worker_start(pid_t *pid)
{
	int ends[2], err = 0;
	pid_t self = getpid();

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	if (fcntl(ends[0], F_SETFL, O_NONBLOCK))
		err = -errno;
	*pid = err ? -1 : fork();
	if (!err && *pid < 0)
		err = -errno;
	if (!*pid)
		work(self, ends[1]);
	close(ends[1]);
	if (err) {
		close(ends[0]);
		return err;
	}
	return ends[0];
}
