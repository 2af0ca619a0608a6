/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * File locks that show whether the xprof that created a file is still running. The kernel releases a lock when the last
 * descriptor of the file is closed. After a kill this can take seconds, because the kernel releases uprobes first.
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
 * error of flock(2). With -EBUSY, sets *holder to the PID of that process from /proc/locks, or to 0 if it is unknown.
 * holder may be NULL.
 */
int xp_file_lock(int fd, pid_t *holder);
/* Like xp_file_lock(), with this timeout. */
int xp_file_lock_within(int fd, uint64_t patience_ns, pid_t *holder);
/*
 * Returns the PID in /proc/locks of the process that locked the file, even if it has ended. 0: not locked, or unknown.
 */
pid_t xp_file_lock_taker(int fd);

#endif
