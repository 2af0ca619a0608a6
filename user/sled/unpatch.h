/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts patched sleds back, from what the process shows alone: the stubs that it has mapped, the sled tables of its
 * files, and the bytes of its sleds. So it is the same work at the end of a recording, after a crash of xprof, and in a
 * child that was forked meanwhile.
 */
#ifndef XPROF_UNPATCH_H
#define XPROF_UNPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Written in one stop of the process, in less than 10 ms. */
#define XP_SLEDS_PER_STOP 4096u

struct xp_unpatched {
	size_t sleds;	     /* put back */
	size_t objects;	     /* in which there were some */
	uint64_t ns;	     /* that the process stood still */
	uint64_t longest_ns; /* at once */
};

/*
 * Of process pid. ours: also when an xprof is recording it, because that is the caller. 0, also when there was nothing
 * to do. Errors, with a sentence in why: -ESRCH it is gone; -EBUSY another xprof is recording it, or it cannot be
 * stopped; -EPERM; -ENOMEM.
 */
int xp_unpatch_process(pid_t pid, bool ours, struct xp_unpatched *unpatched, char *why, size_t why_size);

/*
 * Of all processes that have one of these stubs mapped, given by inode, but for those in `done`: children that were
 * forked while their parent was patched.
 */
void xp_unpatch_children(const ino_t *stubs, size_t count, const pid_t *done, size_t done_count);

#endif
