/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adds to the spool of a recording that was cut off the calls that are still in the call rings of its process
 * (sled/left_rings.h). They follow those of the spool, thread by thread; the calls between, which xprof had only in its
 * own memory, are lost.
 */
#ifndef XPROF_TRACE_RING_RECOVERY_H
#define XPROF_TRACE_RING_RECOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sled/left_rings.h"
#include "trace/spool.h"
#include "trace/thread.h"

struct xp_ring_recovery {
	pid_t pid;
	struct xp_left_counts left; /* what was in the rings */
	struct xp_counts counts;    /* what became of it */
};

/*
 * Returns 0, -ENODATA if the process had no call rings, errors of xp_spool_reopen() and of writing, or those of
 * xp_left_rings_open() with a sentence in why, which is empty for those of xp_spool_reopen(). After an error, the spool
 * is as it was, and the process holds what it held.
 */
int xp_ring_recover(struct xp_ring_recovery *recovery, int dir_fd, const char *name, uint64_t patience_ns, char *why,
		    size_t why_size);

/*
 * Whether a spool that a crash has left is of this process, and tells what the rings of this recording hold. The spool
 * stays as it is.
 */
bool xp_ring_recovery_is_of(int dir_fd, const char *name, uint64_t patience_ns, pid_t pid, const uint64_t recording[2]);

#endif
