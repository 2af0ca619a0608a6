// SPDX-License-Identifier: BSD-2-Clause
/*
 * Finds out whether another xprof records a process. Every process that can open the file of a stub can lock it, so a
 * lock counts only if it is held by a process that may be an xprof: not the target, and with the capabilities that
 * patching requires.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "base/interrupt.h"
#include "sled/stub_map.h"
#include "target/chosen_file.h"
#include "target/status.h"
#include "target/target.h"

#define TRIES 3

/* A process in its own user namespace has all capabilities there. */
static bool in_our_namespace(pid_t pid)
{
	struct stat ours, theirs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	return !stat("/proc/self/ns/user", &ours) && !stat(path, &theirs) && ours.st_ino == theirs.st_ino;
}

static bool may_be_xprof(pid_t pid, pid_t target)
{
	const uint64_t patching = 1ull << CAP_SYS_ADMIN | 1ull << CAP_BPF;
	struct xp_target_status status;

	return pid != target && !xp_thread_status(&status, pid, pid) && status.capabilities & patching &&
	       in_our_namespace(pid);
}

/* Whether the process has the file open. */
static bool has_open(pid_t pid, const struct xp_stub_id *id)
{
	const struct dirent *entry;
	bool found = false;
	char path[300];
	struct stat st;
	DIR *list;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	list = opendir(path);
	while (list && !found && (entry = readdir(list))) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, entry->d_name);
		found = !xp_chosen_stat_link(path, &st) && st.st_ino == id->inode && st.st_dev == id->dev;
	}
	if (list)
		closedir(list);
	return found;
}

/* A task of a killed xprof may live for another 15 s (stopped.h), with the lock. */
static bool has_heir(const struct xp_stub_id *id, pid_t target)
{
	DIR *list = xp_target_list(0);
	bool found = false;
	pid_t pid;

	while (list && !found && !xp_interrupted() && (pid = xp_target_next(list)))
		found = pid != getpid() && may_be_xprof(pid, target) && has_open(pid, id);
	if (list)
		closedir(list);
	return found;
}

int xp_stub_check_lock(const struct xp_stub_place *place, pid_t pid, pid_t *holder)
{
	pid_t taker = 0;
	int err = -EBUSY;

	/* The lock may be released in between. */
	for (int tries = 0; tries < TRIES && !taker && err == -EBUSY; tries++) {
		err = xp_file_lock_within(place->fd, 0, holder);
		taker = err == -EBUSY ? xp_file_lock_taker(place->fd) : 0;
	}
	if (err != -EBUSY || may_be_xprof(taker, pid))
		return err;
	return !xp_target_start_time(taker) && has_heir(&place->id, pid) ? -EBUSY : -EKEYREJECTED;
}

int xp_stub_lock(const struct xp_stub_place *place, pid_t pid, pid_t *holder)
{
	int err = xp_stub_check_lock(place, pid, holder);

	return err == -EBUSY && !*holder ? xp_file_lock(place->fd, holder) : err;
}
