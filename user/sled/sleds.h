/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sleds of one object in one process, or in every process that maps it. Checks that their bytes in memory are those
 * of unpatched sleds, and attaches the programs to them.
 *
 * The check matters: the kernel detaches a uprobe by restoring the first byte of the file. On a sled that XRay's own
 * runtime has patched, that makes the target jump to a random address.
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
	pid_t inherited_from; /* patched in this process, of which it descends, whose stub it has; 0: in itself */
	size_t attached;
	size_t patched;	    /* refused: other bytes, in the file or in the memory of a process */
	pid_t patched_pid;  /* a process in whose memory they have other bytes; 0: only in the file */
	size_t unreadable;  /* refused: the memory could not be read */
	size_t faulting;    /* refused: the process handles faults, and an instruction that may fault would move */
	uint64_t begin_tsc; /* TSC from which all sleds were attached */
};

/* The mode as the command line and the manifest name it: "probe", "patch" or "memory". */
const char *xp_call_mode_name(const struct xp_sled_result *sleds);

/* Selected sleds of an object, and what to attach to them. */
struct xp_sled_choice {
	const struct xp_object *object;
	pid_t pid;	/* 0: every process */
	bool all_args;	/* entry sleds record arguments (--args) */
	bool unpatched; /* only sleds that cannot be patched, in a process whose other sleds are patched */
};

/*
 * Attaches the sleds. With attach NULL, only counts the sleds to attach. Returns 0 or -errno: the error of
 * xp_attach_uprobes(), or -ESRCH if the process has ended or has executed another program. Refused sleds are not an
 * error.
 */
int xp_sleds_attach(struct xp_attach *attach, const struct xp_programs *programs, const struct xp_sled_choice *choice,
		    struct xp_sled_result *result);
/* Whether the mapping is one of the object's file. */
bool xp_sleds_mapped(const struct xp_object *object, pid_t pid, const struct xp_mapping *mapping);
/* The uprobe on a sled. */
struct xp_uprobe xp_sled_uprobe(const struct xp_object *object, const struct xp_sled *sled);

/*
 * Returns the number of the object's selected sleds in process pid that are no longer unpatched sleds with a probe:
 * XRay's runtime has patched them since, and their events have stopped.
 */
size_t xp_sleds_overwritten(const struct xp_object *object, pid_t pid);

#endif
