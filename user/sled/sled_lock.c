// SPDX-License-Identifier: BSD-2-Clause
#include "sled/sled_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/util.h"

#define DIRECTORY "/run/xprof"
#define LOCK_FILE "sleds.lock"
/* Longer than it takes to patch all sleds of a large program, or to attach thousands of single probes. */
#define PATIENCE_NS 10000000000ull
#define PAUSE_NS 20000000

/* Opens the directory, if only root can access its content. */
static int open_directory(void)
{
	struct stat st;
	int dir;

	if (mkdir(DIRECTORY, 0700) && errno != EEXIST)
		return -ENOLCK;
	dir = open(DIRECTORY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return errno == EMFILE || errno == ENFILE ? -errno : -ENOLCK;
	if (fstat(dir, &st) || st.st_uid || st.st_mode & (S_IRWXG | S_IRWXO)) {
		close(dir);
		return -ENOLCK;
	}
	return dir;
}

static int open_lock_file(void)
{
	int dir = open_directory(), file, err;

	if (dir < 0)
		return dir;
	file = openat(dir, LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	err = -errno;
	close(dir);
	if (file >= 0)
		return file;
	return err == -EMFILE || err == -ENFILE ? err : -ENOLCK;
}

/*
 * Locks one byte of the file for each object. Files with the same inode number on two file systems share a byte, which
 * does no harm.
 */
static int set_lock(int file, const struct xp_object *object, short type)
{
	struct flock lock = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)(object->inode & INT64_MAX >> 1), .l_len = 1
	};

	return fcntl(file, F_OFD_SETLK, &lock) ? -errno : 0;
}

int xp_sled_lock(const struct xp_object *object)
{
	static const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t end_ns = xp_now_ns() + PATIENCE_NS;
	int file = open_lock_file(), err;

	if (file < 0)
		return file;
	while ((err = set_lock(file, object, F_WRLCK)) == -EAGAIN || err == -EACCES) {
		if (xp_interrupted() || xp_now_ns() > end_ns) {
			close(file);
			return xp_interrupted() ? -ECANCELED : -EBUSY;
		}
		nanosleep(&pause, NULL);
	}
	if (!err)
		return file;
	close(file);
	return -ENOLCK;
}

void xp_sled_unlock(const struct xp_object *object, int lock)
{
	if (lock < 0)
		return;
	/* Unlock explicitly: children that were forked meanwhile have the open file, too. */
	set_lock(lock, object, F_UNLCK);
	close(lock);
}
