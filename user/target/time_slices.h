/* SPDX-License-Identifier: BSD-2-Clause */
/* How often the threads of a process have been given a CPU, from /proc/PID/task/TID/schedstat. */
#ifndef XPROF_TARGET_TIME_SLICES_H
#define XPROF_TARGET_TIME_SLICES_H

#include <stdint.h>
#include <sys/types.h>

/* Each thread costs the reading of a file, so at most this many threads are read. All others count as their average. */
#define XP_TIME_SLICES_THREADS_MAX 64

/* The sum over the threads that live; 0 if the process has ended, or the kernel does not count (CONFIG_SCHED_INFO). */
uint64_t xp_time_slices(pid_t pid);

#endif
