// SPDX-License-Identifier: BSD-2-Clause
#include "sled/sled_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "base/interrupt.h"

/* More than it takes to patch all sleds of a large program, or to set thousands of single probes. */
#define PATIENCE_NS 10000000000ull

int xp_sled_lock(const struct xp_object *object, pid_t *holder)
{
	char path[64];
	int lock, err;

	/* A lock belongs to an open file: this one is opened anew, so that it also keeps threads of this process apart.
	 */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", object->fd);
	*holder = 0;
	lock = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (lock < 0)
		return -errno;
	err = xp_file_lock_in_turn(lock, PATIENCE_NS, holder);
	if (err == -EBUSY && xp_interrupted())
		err = -ECANCELED;
	if (!err)
		return lock;
	close(lock);
	return err;
}

void xp_sled_unlock(int lock)
{
	if (lock < 0)
		return;
	/* Children that were forked meanwhile have the open file too. */
	flock(lock, LOCK_UN);
	close(lock);
}
