// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/child.h"
#include "base/fd_message.h"
#include "base/util.h"
#include "unwind/cfi_build.h"
#include "unwind/cfi_table.h"

#define TABLE_BYTES_MAX ((rlim_t)XP_CFI_ROWS_MAX * sizeof(struct xp_cfi_row) + (2u << 20))

/* Samples wait for its tables, for a limited time: on a busy machine it must not queue behind everything else. */
#define WORKER_NICE (-10)

#define END_MS 100

/* ---- one file ---- */

/* The descriptors of a child that builds a table. */
enum { FILE_FD = XP_CHILD_FDS, TABLE_FD };

static int build(void *arg)
{
	const struct xp_cfi_request *request = arg;

	if (request->is_foreign)
		setpriority(PRIO_PROCESS, 0, 0);
	return -xp_cfi_build(FILE_FD, *request->path ? request->path : NULL, request->start, request->end, TABLE_FD);
}

/* The only other descriptor belonged to the child, which is dead: no one writes to the table any more. */
static int seal(int fd)
{
	return fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) ? -errno : 0;
}

static int build_in_child(struct xp_cfi_request *request, int fd, int table)
{
	const struct xp_child_options options = {
		.fds = { fd, table },
		.fd_count = 2,
		.ignores_ends = true,
		.limits = {
			.seconds = XP_CFI_BUILD_SECONDS,
			.cpu_seconds = XP_CFI_BUILD_CPU_SECONDS,
			.address_bytes = (rlim_t)8 << 30, /* a separate debug file is mapped in full */
			.data_bytes = (rlim_t)512 << 20,
			.file_bytes = TABLE_BYTES_MAX,
			.no_children = true,
		},
	};
	struct xp_child child;
	int code, err = xp_child_start(&child, &options, build, request);

	if (err)
		return err;
	code = xp_child_wait(child.pid, -1);
	return code < 0 ? code : code ? -code : seal(table);
}

static int serve(struct xp_cfi_request *request, int fd)
{
	int table = memfd_create("xprof-cfi", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct xp_cfi_answer answer = { .id = request->id, .err = table < 0 ? -errno : 0 };
	ssize_t sent;

	if (!answer.err)
		answer.err = fd < 0 ? -EBADF : build_in_child(request, fd, table);
	sent = xp_fd_message_send(XP_CHILD_CHANNEL, &answer, sizeof(answer), answer.err ? -1 : table);
	if (table >= 0)
		close(table);
	return sent < 0 ? (int)sent : 0;
}

/* ---- the worker ---- */

static int work(void *arg)
{
	static struct xp_cfi_request request;
	ssize_t got;
	int fd, err = 0;

	(void)arg;
	unsetenv("DEBUGINFOD_URLS"); /* no table is worth a download */
	if (chdir("/"))
		return 1;
	while (!err && (got = xp_fd_message_receive(XP_CHILD_CHANNEL, &request, sizeof(request) - 1, &fd)) >
			   (ssize_t)offsetof(struct xp_cfi_request, path)) {
		((char *)&request)[got] = 0;
		err = serve(&request, fd);
		if (fd >= 0)
			close(fd);
	}
	return err ? 1 : 0;
}

int xp_cfi_worker_start(pid_t *pid)
{
	static const struct xp_child_options options = {
		.name = "xprof-cfi",
		.channel = XP_CHILD_SOCKET,
		.nice = WORKER_NICE,
		.drops_privileges = true,
		.ignores_ends = true,
	};
	struct xp_child worker;
	int err = xp_child_start(&worker, &options, work, NULL);

	*pid = err ? -1 : worker.pid;
	if (!err && fcntl(worker.fd, F_SETFL, O_NONBLOCK)) {
		err = -errno;
		xp_child_kill(&worker, END_MS);
	}
	return err ? err : worker.fd;
}
