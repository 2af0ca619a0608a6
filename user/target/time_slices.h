/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts the time slices of a process's threads, from /proc/PID/task/TID/schedstat. */
#ifndef XPROF_TARGET_TIME_SLICES_H
#define XPROF_TARGET_TIME_SLICES_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Reading a thread means reading a file, so at most this many threads are read. The other threads count as the average.
 */
#define XP_TIME_SLICES_THREADS_MAX 64

/*
 * Returns the sum over the running threads. Returns 0 if the process has ended, or if the kernel does not count
 * (CONFIG_SCHED_INFO).
 */
uint64_t xp_time_slices(pid_t pid);

#endif
