// SPDX-License-Identifier: BSD-2-Clause
/* Tests on a child of xprof whether the kernel allows writes to code. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/util.h"
#include "base/why.h"
#include "target/remote.h"
#include "target/stopped.h"

#define END_MS 1000

static int idle(void *unused)
{
	(void)unused;
	return pause();
}

/* Overwrites this function in the child, which does not execute it. */
static int write_code(void *pokes, struct xp_remote *remote)
{
	const uint64_t address = (uintptr_t)write_code;
	uint8_t bytes[2 * XP_REMOTE_SCRATCH_BYTES], now[sizeof(bytes)];
	int err = xp_remote_read(remote, address, bytes, sizeof(bytes));

	if (err)
		return err;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] ^= 0xff;
	err = xp_remote_write(remote, address, bytes, sizeof(bytes));
	if (!err)
		err = xp_remote_read(remote, address, now, sizeof(now));
	*(bool *)pokes = xp_remote_pokes(remote);
	return err || !memcmp(now, bytes, sizeof(now)) ? err : -EIO;
}

int xp_remote_try(bool *pokes)
{
	const struct xp_child_options options = { .name = "xprof-written" };
	struct xp_stopped stopped = { 0 };
	struct xp_child child;
	int err = xp_child_start(&child, &options, idle, NULL);

	xp_why_clear();
	if (!err) {
		stopped.pid = child.pid;
		err = xp_stopped_do(&stopped, write_code, pokes);
		xp_child_kill(&child, END_MS);
	}
	return err == -EIO && !xp_why_has(err) ? xp_why_set(err, XP_REMOTE_NO_WRITES) : err;
}
