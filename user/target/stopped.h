/* SPDX-License-Identifier: BSD-2-Clause */
/* Work on a process while all its threads stand still, out of reach of a kill, tried again when one does not stop. */
#ifndef XPROF_STOPPED_H
#define XPROF_STOPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/remote.h"

struct xp_stopped {
	pid_t pid;
	bool held;    /* the caller traces and holds it: xp_remote_hold() */
	bool patient; /* several seconds of tries rather than some tenths */
	bool once;    /* one try: the caller tries again itself */
	uint64_t ns;  /* out: how long it stood still, in all */
	char *why;    /* out: a sentence for an error, terminated always */
	size_t why_size;
};

/* Errors of work, of xp_remote_stop(), and of xp_shielded(). -ECANCELED: xprof is to end, or was killed. */
int xp_stopped_do(struct xp_stopped *stopped, int (*work)(void *arg, struct xp_remote *remote), void *arg);

#endif
