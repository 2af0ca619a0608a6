/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Patches sleds from outside. xprof stops the process briefly (more than once if there are many sleds) and writes the
 * code of XRay's own runtime into its sleds. This code calls a stub (stub.h) that the process is made to map. The
 * uprobes are on the stub. So no sled is single-stepped, and fewer than ten uprobes serve any number of sleds.
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
 * A child of fork() inherits the patched sleds and the stub. If children are recorded, the nop that children reach in
 * the stub (stub.h) has a uprobe for all processes, so a child is recorded from its first instruction without further
 * work or probes.
 */

/* Not thread-safe, but usable by different threads in turn. */
struct xp_patch;

struct xp_patch_options {
	struct xp_attach *attach; /* NULL: dry run, which changes nothing */
	const struct xp_programs *programs;
	bool args;	    /* every entry records arguments */
	bool memory;	    /* record calls in memory (call_rings.h), where possible */
	bool rdpid;	    /* ... with slots that execute rdpid */
	uint64_t min_ticks; /* ... except shorter calls, where possible; 0: all */
	bool budget;	    /* functions may be excluded (object.h); conditional tail exits are not sleds */
	/* Record children of fork() through the sleds that they inherit. The caller probes conditional exits. */
	bool children;
};

/* Returns 0 or -ENOMEM. Everything that the options point to must live longer. */
int xp_patch_new(struct xp_patch **patch, const struct xp_patch_options *options);
/* Restores all sleds that are still patched. */
void xp_patch_free(struct xp_patch *patch);

/* An object in a process. */
struct xp_patch_place {
	const struct xp_object *object;
	pid_t pid;
	bool held;     /* the caller traces and holds the process (launch.h) */
	bool inherits; /* xp_patch_functions(): it is a child, whose sleds call an inherited stub */
};

/*
 * Patches the object's selected sleds in the process. Conditional tail exits get uprobes. Functions that a budget has
 * excluded (object->budget) are counted, or restored immediately: then only the bytes after the first instruction of
 * their sleds change. For result see xp_sleds_attach(). All or nothing. Returns 0 or -errno, with a message (why.h):
 * -ESRCH if the process has exited or has unloaded the object, -ENOMEM, -ECANCELED (interrupt.h); -EOPNOTSUPP, -EBUSY,
 * -EPERM and others if the process cannot be patched, now or at all; then nothing has changed.
 */
int xp_patch_object(struct xp_patch *patch, const struct xp_patch_place *place, struct xp_sled_result *result);

/* Returns the call rings of a process, with a reference for the caller; NULL: none. */
struct xp_call_rings *xp_patch_rings(const struct xp_patch *patch, pid_t pid);

/* Returns why a process has no call rings although they were requested; "": unknown. */
const char *xp_patch_no_rings(const struct xp_patch *patch, pid_t pid);

/* Returns the TSC from which the process has patched sleds; 1: at most preparations were made; 0: nothing was done. */
uint64_t xp_patch_since(const struct xp_patch *patch, pid_t pid);
/* Returns whether a mapping of the object in pid is patched; false if it was unloaded and loaded again. */
bool xp_patch_has(struct xp_patch *patch, const struct xp_object *object, pid_t pid, const struct xp_mapping *mapping);

/*
 * Changes the sleds of these functions (sorted IDs) of a patched object as object->budget requires, in one stop of the
 * process. Other functions lose no record. Returns 0, also if the process runs another program or has unloaded the
 * object, or an error as above. After an error, some sleds may have changed, and the caller may retry: this function
 * does not wait for a process that does not stop immediately.
 */
int xp_patch_functions(struct xp_patch *patch, const struct xp_patch_place *place, const uint32_t *ids, size_t count);
/*
 * Adds to each counter the calls that the stub has counted since the last time, in the process and in recorded
 * children: they share the counters. Call it only from the thread of xp_patch_object(). Returns 0 or the error of
 * xp_target_memory_read(); then some calls may be missing.
 */
int xp_patch_counts(struct xp_patch *patch, pid_t pid, uint64_t counts[XP_STUB_COUNTERS_MAX]);
/* Like xp_patch_counts(), for a process that was forgotten, read in one of its children. */
int xp_patch_counts_left(struct xp_patch *patch, pid_t pid, pid_t child, uint64_t counts[XP_STUB_COUNTERS_MAX]);

/*
 * Returns how many sleds of the object in pid are no longer patched, or are patched by another tool: they cause no more
 * events.
 */
size_t xp_patch_overwritten(struct xp_patch *patch, const struct xp_object *object, pid_t pid);

/*
 * Call this when the process has exited or runs another program, and so has no patched sleds. The caller closes its
 * links. Its children that use its stub are still recorded.
 */
void xp_patch_forget(struct xp_patch *patch, pid_t pid);
/* A recorded process, which may use the stub of another process. */
struct xp_patch_heir {
	pid_t pid;
	pid_t inherits_from; /* 0: unknown */
};

/*
 * Releases the stubs of forgotten processes that none of these processes uses: children that were forked while their
 * parent was patched use them. Such a child may have exited and have children that are not known yet.
 */
void xp_patch_release(struct xp_patch *patch, const struct xp_patch_heir *heirs, size_t count);
/* Returns whether there are stubs of forgotten processes. */
bool xp_patch_left(const struct xp_patch *patch);
/* Returns whether the process has a stub of this recording, its own or its parent's. */
bool xp_patch_knows(const struct xp_patch *patch, pid_t pid);

/*
 * Restores all sleds, also in children that were forked meanwhile. Reports the sleds that cannot be restored, with the
 * remedy. Call it before the uprobes are detached.
 */
void xp_patch_restore(struct xp_patch *patch);
/*
 * Restores the remaining bytes of the sleds (unpatch.h) and unmaps the call rings in all processes. Call it some time
 * after xp_patch_restore(), when the uprobes are detached. xprof can still read the rings. xp_patch_free() calls it,
 * too.
 */
void xp_patch_clear(struct xp_patch *patch);
/* Like xp_patch_clear(), in one process that this xprof or a killed xprof has patched. */
void xp_patch_clear_process(pid_t pid);

/*
 * Returns the original address of code that was moved to this offset of a file of trampolines: the first byte of its
 * window, in the process that maps the file. 0: unknown.
 */
uint64_t xp_patch_original(const struct xp_patch *patch, uint64_t inode, uint64_t offset);

/* Returns how long processes were stopped for patching, in ns: the sum, and the longest stop. */
uint64_t xp_patch_stopped_ns(const struct xp_patch *patch, uint64_t *longest_ns);

#endif
