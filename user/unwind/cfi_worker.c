// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/fd_message.h"
#include "unwind/cfi_build.h"
#include "unwind/cfi_table.h"

#define TABLE_BYTES_MAX ((rlim_t)XP_CFI_ROWS_MAX * sizeof(struct xp_cfi_row) + (2u << 20))

/* A child for system files is replaced after this CPU time, so that each file gets most of its time limit. */
#define SERIES_CPU_SECONDS 1

#define END_MS 100

struct worker {
	struct xp_child series; /* for system files */
};

/* Makes a table. Returns the descriptor of a sealed memfd, or -errno. fd: the file. */
typedef int make_table(struct worker *worker, struct xp_cfi_request *request, int fd);

static int new_table(void)
{
	int table = memfd_create("xprof-cfi", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	return table < 0 ? -errno : table;
}

/* Seals a finished table: then no descriptor can change it. */
static int finish_table(int table, int err)
{
	if (!err && fcntl(table, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL))
		err = -errno;
	if (!err)
		return table;
	close(table);
	return err;
}

/* Answers requests until there are no more, an error occurs, or the process has used cpu_seconds (0: no limit). */
static int serve(make_table *make, struct worker *worker, time_t cpu_seconds)
{
	struct xp_cfi_request request;
	struct timespec used = { 0 };
	ssize_t sent = 0;
	int fd;

	while (sent >= 0 && (!cpu_seconds || used.tv_sec < cpu_seconds) &&
	       xp_fd_message_receive(XP_CHILD_CHANNEL, &request, sizeof(request), &fd) == sizeof(request)) {
		struct xp_cfi_answer answer = { .id = request.id };
		int table = -EBADF;

		if (fd >= 0)
			table = make(worker, &request, fd);
		answer.err = table < 0 ? table : 0;
		sent = xp_fd_message_send(XP_CHILD_CHANNEL, &answer, sizeof(answer), table < 0 ? -1 : table);
		if (table >= 0)
			close(table);
		if (fd >= 0)
			close(fd);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	}
	return sent < 0 ? 1 : 0;
}

/* ---- one file ---- */

static const struct xp_child_limits limits = {
	.seconds = XP_CFI_BUILD_SECONDS,
	.cpu_seconds = XP_CFI_BUILD_CPU_SECONDS,
	.address_bytes = (rlim_t)8 << 30, /* the file is mapped in full */
	.data_bytes = (rlim_t)512 << 20,
	.file_bytes = TABLE_BYTES_MAX,
	.no_children = true,
};

/* The descriptors of a child that builds a table. */
enum { FILE_FD = XP_CHILD_FDS, TABLE_FD };

static int build_alone(void *arg)
{
	const struct xp_cfi_request *request = arg;

	return -xp_cfi_build(FILE_FD, &request->range, TABLE_FD);
}

static int make_alone(struct worker *worker, struct xp_cfi_request *request, int fd)
{
	int table = new_table(), err;
	const struct xp_child_options options = {
		.fds = { fd, table },
		.fd_count = 2,
		.limits = limits,
	};
	struct xp_child child;

	(void)worker;
	if (table < 0)
		return table;
	err = xp_child_start(&child, &options, build_alone, request);
	if (!err) {
		int code = xp_child_wait(child.pid, -1);

		err = code < 0 ? code : -code;
	}
	return finish_table(table, err);
}

/* ---- system files ---- */

static int make_in_series(struct worker *worker, struct xp_cfi_request *request, int fd)
{
	int table = new_table();

	(void)worker;
	if (table < 0)
		return table;
	alarm(XP_CFI_BUILD_SECONDS);
	table = finish_table(table, xp_cfi_build(fd, &request->range, table));
	alarm(0);
	return table;
}

static int series(void *arg)
{
	alarm(0); /* no limit while waiting for a file */
	return serve(make_in_series, arg, SERIES_CPU_SECONDS);
}

static int start_series(struct worker *worker)
{
	static const struct timeval timeout = { .tv_sec = XP_CFI_BUILD_SECONDS + 1 };
	const struct xp_child_options options = {
		.channel = XP_CHILD_SOCKET,
		.limits = limits,
	};
	int err = xp_child_start(&worker->series, &options, series, NULL);

	if (!err && setsockopt(worker->series.fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)))
		err = -errno;
	return err;
}

/* Returns whether the child has answered. */
static bool ask_series(struct worker *worker, const struct xp_cfi_request *request, int fd, int *table)
{
	struct xp_cfi_answer answer;

	if (!worker->series.pid && start_series(worker))
		return false;
	if (xp_fd_message_send(worker->series.fd, request, sizeof(*request), fd) < 0)
		return false;
	if (xp_fd_message_receive(worker->series.fd, &answer, sizeof(answer), table) == sizeof(answer) &&
	    answer.id == request->id && answer.err <= 0 && !answer.err == (*table >= 0)) {
		*table = answer.err ? answer.err : *table;
		return true;
	}
	if (*table >= 0)
		close(*table);
	return false;
}

static void end_series(struct worker *worker)
{
	if (worker->series.pid)
		xp_child_kill(&worker->series, END_MS);
	worker->series = (struct xp_child){ .fd = -1 };
}

/* Uses the shared child. If that child reaches its limits, or fails with this file, uses a separate child. */
static int make(struct worker *worker, struct xp_cfi_request *request, int fd)
{
	int table = -1;

	if (!request->is_system)
		return make_alone(worker, request, fd);
	if (ask_series(worker, request, fd, &table))
		return table;
	end_series(worker);
	return make_alone(worker, request, fd);
}

/* ---- the worker ---- */

static int work(void *arg)
{
	const struct sched_param none = { 0 };
	struct worker worker = { .series.fd = -1 };
	int code;

	(void)arg;
	(void)sched_setscheduler(0, SCHED_BATCH, &none);
	code = serve(make, &worker, 0);
	end_series(&worker);
	return code;
}

int xp_cfi_worker_start(pid_t *pid)
{
	static const struct xp_child_options options = {
		.name = "xprof-cfi",
		.channel = XP_CHILD_SOCKET,
		.drops_privileges = true,
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
