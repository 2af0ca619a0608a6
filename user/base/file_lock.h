/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks that show whether the xprof that made a file is still running. The kernel drops a lock with the last descriptor
 * of the file. After a kill this takes a while, because the kernel releases other resources first (uprobes are slow).
 */
#ifndef XPROF_BASE_FILE_LOCK_H
#define XPROF_BASE_FILE_LOCK_H

#include <stdint.h>
#include <sys/types.h>

/* A killed xprof stops a target for up to 15 s, and then removes its probes. */
#define XP_FILE_LOCK_PATIENCE_NS 20000000000ull

/*
 * Locks the open file. If the holder has ended, is about to end or is unknown, waits until XP_FILE_LOCK_PATIENCE_NS
 * have passed or SIGINT or SIGTERM is pending. Returns 0 or -errno: -EBUSY if another process holds the lock, or an
 * error of flock(2). With -EBUSY, *holder (NULL: not wanted) is that process according to /proc/locks, or 0 if it is
 * not known.
 */
int xp_file_lock(int fd, pid_t *holder);
/* Like xp_file_lock(), with another timeout. */
int xp_file_lock_within(int fd, uint64_t patience_ns, pid_t *holder);
/* The process that took the lock, according to /proc/locks, even if it has ended; 0: none, or unknown. */
pid_t xp_file_lock_taker(int fd);

#endif
