// SPDX-License-Identifier: BSD-2-Clause
#include "base/file_lock.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/small_file.h"
#include "base/util.h"

#define PAUSE_NS 20000000
#define PF_EXITING 0x4 /* include/linux/sched.h */

/* Compares only the inode of the file: on some file systems, the device in /proc/locks differs from that of stat(2). */
pid_t xp_file_lock_taker(int fd)
{
	FILE *locks = fopen("/proc/locks", "re");
	pid_t pid, found = 0;
	uint64_t inode;
	char line[256];
	struct stat st;

	if (!locks || fstat(fd, &st))
		st.st_ino = 0;
	while (locks && !found && fgets(line, sizeof(line), locks))
		if (sscanf(line, "%*u: FLOCK %*s %*s %d %*x:%*x:%" SCNu64, &pid, &inode) == 2 && inode == st.st_ino)
			found = pid;
	if (locks)
		fclose(locks);
	return found;
}

/* Returns true if the process runs, is not exiting, and has no fatal signal pending. */
static bool is_alive(pid_t pid)
{
	char text[1024], state = 0;
	unsigned int flags = 0;
	unsigned long pending = 0;
	const char *fields;

	xp_small_file_read(text, sizeof(text), "/proc/%d/stat", pid);
	fields = strrchr(text, ')');
	/* proc_pid_stat(5): state, flags, and the signals pending for the first thread. */
	if (!fields || sscanf(fields,
			      ") %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %*u %*u %*d "
			      "%*u %*u %*u %*u %*u %*u %lu",
			      &state, &flags, &pending) != 3)
		return false;
	return state != 'Z' && state != 'X' && !(flags & PF_EXITING) && !(pending & 1ul << (SIGKILL - 1));
}

static bool is_interrupted(void)
{
	sigset_t pending;

	return !sigpending(&pending) && (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM));
}

int xp_file_lock_within(int fd, uint64_t patience_ns, pid_t *holder)
{
	static const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t end_ns = xp_now_ns() + patience_ns;
	pid_t pid;

	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK)
			return -errno;
		pid = xp_file_lock_taker(fd);
		if (pid > 0 && !is_alive(pid))
			pid = 0;
		if (holder)
			*holder = XP_MAX(pid, 0);
		if (pid > 0 || is_interrupted() || xp_now_ns() > end_ns)
			return -EBUSY;
		nanosleep(&pause, NULL);
	}
	return 0;
}

int xp_file_lock(int fd, pid_t *holder)
{
	return xp_file_lock_within(fd, XP_FILE_LOCK_PATIENCE_NS, holder);
}
