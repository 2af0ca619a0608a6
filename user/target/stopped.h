/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs work on a process while all its threads are stopped. A kill of xprof does not interrupt the work. Retries if a
 * thread does not stop.
 */
#ifndef XPROF_TARGET_STOPPED_H
#define XPROF_TARGET_STOPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/remote.h"

struct xp_stopped {
	pid_t pid;
	bool held;    /* the caller traces and holds the process: xp_remote_hold() */
	bool patient; /* retry for several seconds instead of some tenths */
	bool once;    /* one try: the caller retries itself */
	uint64_t ns;  /* out: total time that the process was stopped */
};

/*
 * Calls work() while the process is stopped. Returns 0 or an error of work(), xp_remote_stop() or xp_shielded(), with a
 * sentence (why.h) unless work() set none. -ECANCELED: xprof is to end, or was killed.
 */
int xp_stopped_do(struct xp_stopped *stopped, int (*work)(void *arg, struct xp_remote *remote), void *arg);

#endif
