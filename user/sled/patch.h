/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleds that are patched from outside: the process is stopped for a moment (for many sleds more than once), its sleds
 * get the code that XRay's own runtime would write there, leading to a stub (stub.h) that it is made to map, and the
 * uprobes are on the stub. So no sled is single-stepped, and there are a handful of uprobes however many sleds there
 * are.
 */
#ifndef XPROF_PATCH_H
#define XPROF_PATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel/attach.h"
#include "sled/object.h"
#include "kernel/programs.h"
#include "sled/sleds.h"

/* Not for several threads at once, but not bound to one either. */
struct xp_patch;

struct xp_patch_options {
	struct xp_attach *attach; /* NULL: nothing is touched, only judged */
	const struct xp_programs *programs;
	enum xp_stub_form form;
	bool args;   /* every entry records arguments */
	bool budget; /* functions may be taken out (object.h), and conditional tail exits are the caller's to probe */
};

/* -ENOMEM. What the options point to must outlive it. */
int xp_patch_new(struct xp_patch **patch, const struct xp_patch_options *options);
/* Puts all sleds back that still are patched. */
void xp_patch_free(struct xp_patch *patch);

/*
 * Patches object's selected sleds in process pid. held: the caller traces and holds it (launch.h). Conditional tail
 * exits get uprobes of their own. Functions that are taken out (object->taken) are counted, or put back at once: only
 * what is behind the first instruction of their sleds is changed then. result as of xp_sleds_attach(). All or nothing;
 * errors, with a sentence in why: -ESRCH the process is gone, or the object is from it, -ENOMEM, -ECANCELED
 * (interrupt.h); -EOPNOTSUPP, -EBUSY, -EPERM, and others: it cannot be patched, now or at all, and nothing has changed.
 */
int xp_patch_object(struct xp_patch *patch, const struct xp_object *object, pid_t pid, bool held,
		    struct xp_sled_result *result, char *why, size_t why_size);

/* Since what TSC the process has patched sleds; 1: it has got ready for them, at the most; 0: not even that. */
uint64_t xp_patch_since(const struct xp_patch *patch, pid_t pid);
/* Whether a mapping of the object in pid is patched: not so when it was unloaded and loaded again. */
bool xp_patch_has(struct xp_patch *patch, const struct xp_object *object, pid_t pid, const struct xp_mapping *mapping);

/*
 * Has the sleds of these functions (ids) of a patched object accord with object->taken, in one stop of the process. The
 * others lose no record by it. Sets object->out_tsc of those that are taken out, unless it is earlier. 0, also when it
 * runs another program or has unloaded the object, or errors as above: then some may be done, and it can be tried
 * again, which is the caller's: a process that does not stop at once is not waited for here.
 */
int xp_patch_functions(struct xp_patch *patch, const struct xp_object *object, pid_t pid, const uint32_t *ids,
		       size_t count, char *why, size_t why_size);
/*
 * Adds to each counter what has been counted in the process since this was last looked at. To be called from one thread
 * always, which is that of xp_patch_object(). 0, or what xp_target_memory_read() says: there may be more calls.
 */
int xp_patch_counts(struct xp_patch *patch, pid_t pid, uint64_t counts[XP_STUB_COUNTERS_MAX]);

/* Sleds of the object in pid that are patched no more, or by somebody else: their events have stopped. */
size_t xp_patch_overwritten(struct xp_patch *patch, const struct xp_object *object, pid_t pid);

/* The process runs another program, or ended: nothing of it is patched any more. Its links are the caller's to close.
 */
void xp_patch_forget(struct xp_patch *patch, pid_t pid);

/*
 * Puts everything back, also in children that were forked meanwhile; what cannot be is told with its remedy. To be
 * called before the uprobes are taken away.
 */
void xp_patch_restore(struct xp_patch *patch);

/* How long processes stood still for it, in ns: the sum, and the longest. */
uint64_t xp_patch_stopped_ns(const struct xp_patch *patch, uint64_t *longest_ns);

#endif
