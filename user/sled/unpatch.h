/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Restores patched sleds, using only data of the process itself: the stubs that it has mapped, the sled tables of its
 * files, and the bytes of its sleds. So the same code works at the end of a recording, after a crash of xprof, and for
 * a child that was forked meanwhile.
 */
#ifndef XPROF_SLED_UNPATCH_H
#define XPROF_SLED_UNPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sled/stub_map.h"

/* Sleds written in one stop of the process, which takes less than 10 ms. */
#define XP_SLEDS_PER_STOP 4096u

struct xp_unpatched {
	size_t sleds;	     /* sleds restored */
	size_t objects;	     /* objects that had such sleds */
	uint64_t ns;	     /* how long the process was stopped */
	uint64_t longest_ns; /* the longest single stop */
};

/*
 * Restores the sleds of process pid. ours: continue if an xprof is recording the process, because the caller is that
 * xprof. Returns 0, also if no sled was patched, or -errno with a message (why.h): -ESRCH if it has exited, -EBUSY if
 * another xprof is recording it or it cannot be stopped, -EKEYREJECTED if it has forged stubs (stub_map.h), -EPERM,
 * -ENOMEM.
 */
int xp_unpatch_process(pid_t pid, bool ours, struct xp_unpatched *unpatched);

/*
 * Restores the bytes after the first instruction of restored sleds, so that the code is as in the file. Call it some
 * time after the sleds were restored, because threads execute the rest of a sled for some instructions. Omits sleds
 * that a signal handler has interrupted, because a thread may still return there.
 */
void xp_unpatch_tails(pid_t pid);

/*
 * Returns whether an xprof has patched process pid: -EBUSY if it is still recording (*holder, 0: unknown), 0 if it has
 * exited, -ENOENT if no xprof has patched it; -ESRCH, -ENOMEM or an error of flock(2).
 */
int xp_unpatch_owner(pid_t pid, pid_t *holder);

/* Returns whether the process has mapped one of these stubs. */
bool xp_unpatch_has_stub(pid_t pid, const struct xp_stub_id *stubs, size_t count);

/*
 * Restores the sleds of all processes that have mapped one of these stubs, except those in `done`: children that were
 * forked while their parent was patched. Returns these children, and their number in *child_count; NULL: there are
 * none, or there is no memory. The caller frees them.
 */
pid_t *xp_unpatch_children(const struct xp_stub_id *stubs, size_t count, const pid_t *done, size_t done_count,
			   size_t *child_count);

#endif
