/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sleds of one object in one process, or in every process that maps it. Checks that their bytes in memory are those
 * of unpatched sleds, and attaches BPF programs to them. The check is necessary: to detach a uprobe, the kernel
 * restores the first byte of the file. On a sled that XRay's own runtime has patched, that makes the target jump to a
 * random address.
 */
#ifndef XPROF_SLED_SLEDS_H
#define XPROF_SLED_SLEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel/attach.h"
#include "kernel/programs.h"
#include "sled/object.h"
#include "target/target.h"

struct xp_sled_result {
	enum xp_call_mode mode;
	bool memory;	      /* patched, and calls are recorded in memory (call_rings.h) */
	pid_t inherited_from; /* ancestor with the patches and the stub; 0: the process itself */
	size_t attached;
	size_t patched;	    /* number refused because of other bytes, in the file or in the memory of a process */
	pid_t patched_pid;  /* a process with other bytes in its memory; 0: only the file has them */
	size_t unreadable;  /* number refused because the memory could not be read */
	size_t faulting;    /* refused: may fault if moved, in a process that handles faults */
	uint64_t begin_tsc; /* TSC from which all sleds were attached */
};

/* Returns the call mode as named on the command line and in the manifest: "probe", "patch" or "memory". */
const char *xp_call_mode_name(const struct xp_sled_result *sleds);

/* Selected sleds of an object, and what to attach to them. */
struct xp_sled_choice {
	const struct xp_object *object;
	pid_t pid;	/* 0: every process */
	bool all_args;	/* entry sleds record arguments (--args) */
	bool unpatched; /* only sleds that cannot be patched; the others are patched */
};

/*
 * Attaches the sleds. With attach NULL, only counts them. Returns 0 or -errno: the error of xp_attach_uprobes(), or
 * -ESRCH if the process has exited or has executed another program. Refused sleds are not an error.
 */
int xp_sleds_attach(struct xp_attach *attach, const struct xp_programs *programs, const struct xp_sled_choice *choice,
		    struct xp_sled_result *result);
/* Returns whether the mapping is one of the object's file. */
bool xp_sleds_mapped(const struct xp_object *object, pid_t pid, const struct xp_mapping *mapping);
/* Returns the uprobe for a sled. */
struct xp_uprobe xp_sled_uprobe(const struct xp_object *object, const struct xp_sled *sled);

/*
 * Returns how many selected sleds of the object in process pid have lost their probe: XRay's runtime has patched them
 * since, and they cause no more events.
 */
size_t xp_sleds_overwritten(const struct xp_object *object, pid_t pid);

#endif
