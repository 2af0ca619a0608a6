// SPDX-License-Identifier: BSD-2-Clause
#include "sled/ring_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/child.h"
#include "base/util.h"
#include "sled/call_rings.h"

#define PATIENCE_MS 200

/* The hanging children for all processes. */
static struct pending {
	pid_t pid;
	uid_t uid; /* user of the process */
} pending[XP_RING_PAGES_PENDING];
static size_t pending_count;

static int punch_hole(void *arg)
{
	(void)arg;
	return fallocate(XP_CHILD_FDS, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, XP_CALL_RINGS_BYTES) ? 1 : 0;
}

size_t xp_ring_pages_pending(void)
{
	XP_ARRAY_KEEP(pending, pending_count, i, xp_child_wait(pending[i].pid, 0) == -EAGAIN);
	return pending_count;
}

/* Returns whether to start a child for this user. */
static bool has_room(uid_t uid)
{
	size_t count = xp_ring_pages_pending();

	for (size_t i = 0; i < count; i++)
		if (pending[i].uid == uid)
			return false;
	return count < XP_RING_PAGES_PENDING;
}

void xp_ring_pages_give_back(int fd)
{
	const struct xp_child_options options = {
		.name = "xprof-pages", .fds = { fd }, .fd_count = 1, .outlives_parent = true
	};
	struct xp_child child = { .pid = 0 };
	struct stat st;
	int err = fstat(fd, &st) ? -errno : 0;

	if (!err && !has_room(st.st_uid))
		err = -EAGAIN;
	if (!err)
		err = xp_child_start(&child, &options, punch_hole, NULL);
	if (!err)
		err = xp_child_wait(child.pid, PATIENCE_MS);
	if (err == -EAGAIN && child.pid)
		pending[pending_count++] = (struct pending){ .pid = child.pid, .uid = st.st_uid };
	if (err)
		xp_debug("the pages of call rings stay: %s", err < 0 ? strerror(-err) : "fallocate() fails");
}
