/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Patches sleds from outside. xprof stops the process briefly (more than once if there are many sleds), writes into its
 * sleds the code that XRay's own runtime would write, and has them call a stub (stub.h) that the process is made to
 * map. The uprobes are on the stub. So no sled is single-stepped, and a handful of uprobes serves any number of sleds.
 */
#ifndef XPROF_SLED_PATCH_H
#define XPROF_SLED_PATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel/attach.h"
#include "kernel/programs.h"
#include "sled/object.h"
#include "sled/sleds.h"

/*
 * A child of fork() inherits the patched sleds and the stub. If children are recorded, the nop at which they arrive
 * there (stub.h) has a uprobe for all processes, and they are recorded from their first instruction. For that, nothing
 * is done in them, and they need no probe more.
 */

/* Not thread-safe, but not bound to one thread either. */
struct xp_patch;

struct xp_patch_options {
	struct xp_attach *attach; /* NULL: dry run, which changes nothing */
	const struct xp_programs *programs;
	bool args;	    /* every entry records arguments */
	bool memory;	    /* calls are recorded in memory (call_rings.h), where possible */
	bool rdpid;	    /* ... by slots that execute rdpid */
	uint64_t min_ticks; /* ... but for calls that are shorter, where possible; 0: all */
	bool budget;	    /* functions may be excluded (object.h); no sled is a conditional tail exit */
	/* Children of fork() are recorded through the sleds that they inherit. The caller probes conditional exits. */
	bool children;
};

/* Returns 0 or -ENOMEM. All that the options point to must outlive it. */
int xp_patch_new(struct xp_patch **patch, const struct xp_patch_options *options);
/* Restores all sleds that are still patched. */
void xp_patch_free(struct xp_patch *patch);

/* An object in a process. */
struct xp_patch_place {
	const struct xp_object *object;
	pid_t pid;
	bool held;     /* the caller traces and holds the process (launch.h) */
	bool inherits; /* xp_patch_functions(): a child, whose sleds lead to a stub that it has inherited */
};

/*
 * Patches the object's selected sleds in the process. Conditional tail exits get uprobes. Functions that a budget has
 * excluded (object->budget) are counted, or restored at once: then only the bytes behind the first instruction of their
 * sleds change. For result see xp_sleds_attach(). All or nothing. Returns 0 or -errno, with a sentence (why.h): -ESRCH
 * if the process has ended or has unloaded the object, -ENOMEM, -ECANCELED (interrupt.h); -EOPNOTSUPP, -EBUSY, -EPERM
 * and others if the process cannot be patched, now or at all, and nothing has changed.
 */
int xp_patch_object(struct xp_patch *patch, const struct xp_patch_place *place, struct xp_sled_result *result);

/* The call rings of a process, with a reference for the caller; NULL: it has none. */
struct xp_call_rings *xp_patch_rings(const struct xp_patch *patch, pid_t pid);

/* Why a process has none, though they were to be made; "": another reason. */
const char *xp_patch_no_rings(const struct xp_patch *patch, pid_t pid);

/* The TSC from which the process has patched sleds; 1: at most preparations were made; 0: not even those. */
uint64_t xp_patch_since(const struct xp_patch *patch, pid_t pid);
/* Whether a mapping of the object in pid is patched. It is not if the object was unloaded and loaded again. */
bool xp_patch_has(struct xp_patch *patch, const struct xp_object *object, pid_t pid, const struct xp_mapping *mapping);

/*
 * Applies what object->budget excludes to the sleds of these functions (sorted ids) of a patched object, in one stop of
 * the process. Other functions lose no record. Returns 0, also if the process runs another program or has unloaded the
 * object, or an error as above. After an error some sleds may be changed, and the caller may retry: this function does
 * not wait for a process that does not stop at once.
 */
int xp_patch_functions(struct xp_patch *patch, const struct xp_patch_place *place, const uint32_t *ids, size_t count);
/*
 * Adds to each counter the calls counted in the process since the last time, and in its children if they are recorded:
 * all share the counters. Always call it from one thread, that of xp_patch_object(). Returns 0 or the error of
 * xp_target_memory_read(), in which case some calls may be missing.
 */
int xp_patch_counts(struct xp_patch *patch, pid_t pid, uint64_t counts[XP_STUB_COUNTERS_MAX]);
/* Like xp_patch_counts(), for a process that was forgotten, read in one of its children. */
int xp_patch_counts_left(struct xp_patch *patch, pid_t pid, pid_t child, uint64_t counts[XP_STUB_COUNTERS_MAX]);

/*
 * How many sleds of the object in pid are no longer patched, or are patched by another tool: their events have stopped.
 */
size_t xp_patch_overwritten(struct xp_patch *patch, const struct xp_object *object, pid_t pid);

/*
 * Call this when the process runs another program or has ended: none of its sleds is patched any more. The caller
 * closes its links. Its children that are recorded through its stub are still recorded.
 */
void xp_patch_forget(struct xp_patch *patch, pid_t pid);
/* A recorded process, which may have the stub of another process. */
struct xp_patch_heir {
	pid_t pid;
	pid_t inherits_from; /* 0: not known */
};

/*
 * Releases the stubs of processes that have been forgotten, unless one of these processes still has them: a child that
 * was forked while its parent was patched. It may have ended, and have children that nobody has told of yet.
 */
void xp_patch_release(struct xp_patch *patch, const struct xp_patch_heir *heirs, size_t count);
/* Whether there are any. */
bool xp_patch_left(const struct xp_patch *patch);
/* Whether the process has a stub of this recording, its own or its parent's. */
bool xp_patch_knows(const struct xp_patch *patch, pid_t pid);

/*
 * Restores all sleds, also in children that were forked meanwhile. Reports the sleds that cannot be restored, with the
 * remedy. Call it before the uprobes are detached.
 */
void xp_patch_restore(struct xp_patch *patch);
/*
 * Restores the rest of the sleds (unpatch.h) and unmaps the call rings in all processes, some time after
 * xp_patch_restore() and after the uprobes were detached. xprof can still read the rings. xp_patch_free() does it, too.
 */
void xp_patch_clear(struct xp_patch *patch);
/* Like xp_patch_clear(), in one process, whether this xprof has patched it or one that was killed. */
void xp_patch_clear_process(pid_t pid);

/*
 * The address of the code that was moved to this offset of a file of trampolines: of the first byte of its window, in
 * the process that maps the file. 0: unknown.
 */
uint64_t xp_patch_original(const struct xp_patch *patch, uint64_t inode, uint64_t offset);

/* How long processes were stopped for patching, in ns: the sum, and the longest stop. */
uint64_t xp_patch_stopped_ns(const struct xp_patch *patch, uint64_t *longest_ns);

#endif
