// SPDX-License-Identifier: BSD-2-Clause
#include "push/pusher.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/child.h"
#include "base/fd_message.h"
#include "base/util.h"
#include "push/push_loop.h"
#include "push/push_queue.h"

#define START_MS 10000
#define POLL_MS 100
#define STOP_MS 2000
#define SAY_AFTER_NS (2 * XP_NS_PER_S)

struct xp_pusher {
	struct xp_child process;
	struct xp_push_config *config;
	struct xp_push_counts *counts; /* shared */
	char queue[PATH_MAX];
};

/* ---- the process ---- */

struct starting {
	struct xp_pusher *pusher;
	pid_t parent;
	int (*become_user)(void);
};

static int run(void *arg)
{
	const struct starting *starting = arg;
	const struct xp_push_loop_options options = {
		.config = starting->pusher->config,
		.queue = starting->pusher->queue,
		.counts = starting->pusher->counts,
	};
	int err;

	dup2(XP_CHILD_FDS, STDERR_FILENO);
	err = starting->become_user();
	if (err) {
		xp_fd_message_send(XP_CHILD_CHANNEL, &err, sizeof(err), -1);
		return 1;
	}
	xp_child_die_with(starting->parent);
	return xp_push_loop(XP_CHILD_CHANNEL, &options);
}

/* ---- the caller ---- */

static void free_pusher(struct xp_pusher *pusher)
{
	if (pusher->counts)
		munmap(pusher->counts, sizeof(*pusher->counts));
	free(pusher);
}

/* Returns whether the process is ready. */
static int get_ready(const struct xp_pusher *pusher)
{
	struct pollfd answer = { .fd = pusher->process.fd, .events = POLLIN };
	int err = -EIO, fd = -1;

	if (poll(&answer, 1, START_MS) <= 0)
		return -ETIMEDOUT;
	if (xp_fd_message_receive(pusher->process.fd, &err, sizeof(err), &fd) != sizeof(err))
		err = -EIO;
	if (fd >= 0)
		close(fd);
	return err;
}

static void report_start(const struct xp_pusher *pusher, int err)
{
	if (err == -ELIBACC)
		xp_error("--push requires libcurl.so.4; install libcurl4");
	else if (err == -EBUSY)
		xp_error("--push: another xprof uses the queue %s; choose another directory with --output",
			 pusher->queue);
	else if (err == -EPERM)
		xp_error("--push: the directory of the queue, %s, must belong to the user, and no other user may write "
			 "to it",
			 pusher->queue);
	else
		xp_error("--push: cannot open the queue %s: %s", pusher->queue, strerror(-err));
}

static int start(struct xp_pusher *pusher, int (*become_user)(void))
{
	struct starting starting = { pusher, getpid(), become_user };
	const struct xp_child_options options = {
		.name = "xprof-queue",
		.channel = XP_CHILD_SOCKET,
		.fds = { STDERR_FILENO },
		.fd_count = 1,
	};
	void *shared = mmap(NULL, sizeof(*pusher->counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int err;

	if (shared == MAP_FAILED)
		return -errno;
	pusher->counts = shared;
	err = xp_child_start(&pusher->process, &options, run, &starting);
	if (err)
		return err;
	err = get_ready(pusher);
	if (err)
		xp_child_kill(&pusher->process, STOP_MS);
	return err;
}

int xp_pusher_start(struct xp_pusher **pusher, struct xp_push_config *config, const char *queue,
		    int (*become_user)(void))
{
	struct xp_pusher *new = calloc(1, sizeof(*new));
	int err;

	*pusher = NULL;
	if (!new)
		return -ENOMEM;
	new->config = config;
	snprintf(new->queue, sizeof(new->queue), "%s", queue);
	err = start(new, become_user);
	xp_push_config_forget(config);
	if (err) {
		report_start(new, err);
		free_pusher(new);
	} else {
		*pusher = new;
	}
	return err;
}

void xp_pusher_add(struct xp_pusher *pusher, const char *directory)
{
	if (send(pusher->process.fd, directory, strlen(directory), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		xp_warn("the profiles of %s are not pushed: %s", directory, strerror(errno));
}

static void report(const struct xp_pusher *pusher)
{
	const struct xp_push_config *config = pusher->config;
	const struct xp_push_counts *counts = pusher->counts;
	uint64_t dropped = counts->dropped + counts->unstored;

	xp_info("pushed %" PRIu64 " profile%s to %s at %s", counts->pushed, xp_plural_s(counts->pushed),
		xp_push_engine_name(config->engine), config->base);
	if (counts->queued)
		xp_warn("%" PRIu64 " profile%s in %s; the next 'xprof record --push' with this output sends them",
			counts->queued, counts->queued == 1 ? " remains" : "s remain", pusher->queue);
	if (dropped)
		xp_warn("%" PRIu64
			" profile%s dropped: rejected by the engine, beyond the limits of the queue, or not stored",
			dropped, dropped == 1 ? " was" : "s were");
}

void xp_pusher_finish(struct xp_pusher *pusher, bool (*is_interrupted)(void))
{
	uint64_t say_ns = xp_now_ns() + SAY_AFTER_NS;
	bool is_stopped = false;
	int code;

	shutdown(pusher->process.fd, SHUT_WR);
	while ((code = xp_child_wait(pusher->process.pid, is_stopped ? STOP_MS : POLL_MS)) == -EAGAIN) {
		if (xp_now_ns() >= say_ns) {
			xp_info("pushing the profiles; ^C ends this");
			say_ns = UINT64_MAX;
		}
		if (is_stopped) {
			xp_child_kill(&pusher->process, STOP_MS);
			break;
		}
		is_stopped = pusher->counts->stop = is_interrupted();
	}
	if (code)
		xp_warn("pushing ended early; %s keeps what remains", pusher->queue);
	report(pusher);
	if (pusher->process.fd >= 0)
		close(pusher->process.fd);
	free_pusher(pusher);
}
