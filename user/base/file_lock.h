/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks that tell whether the xprof that made a file still runs. They go with its last descriptor: some time after a
 * kill, for what the kernel has to let go of before (uprobes) takes its time.
 */
#ifndef XPROF_FILE_LOCK_H
#define XPROF_FILE_LOCK_H

#include <stdint.h>
#include <sys/types.h>

#define XP_FILE_LOCK_PATIENCE_NS 5000000000ull

/*
 * Locks the open file. A lock of a process that is gone, or about to be, is waited for until XP_FILE_LOCK_PATIENCE_NS,
 * or until SIGINT or SIGTERM is pending. -EBUSY: another one has it; *holder (NULL: not wanted) is its process, as far
 * as /proc/locks tells, or 0. Others are those of flock(2).
 */
int xp_file_lock(int fd, pid_t *holder);
/* The same with another patience. */
int xp_file_lock_within(int fd, uint64_t patience_ns, pid_t *holder);

#endif
