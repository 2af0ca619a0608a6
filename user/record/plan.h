/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plan of a recording: what is recorded, and how. It is made from the options, the kernel and the privileges before
 * any target is touched, and does not change afterwards.
 */
#ifndef XPROF_RECORD_PLAN_H
#define XPROF_RECORD_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "arch/x86_64/stub.h"
#include "kernel/preflight.h"
#include "options.h"
#include "xprof/event.h"

/* Maximum number of processes that --follow and --exec record at the same time. */
#define XP_TARGETS_MAX 65536

struct xp_plan {
	bool sleds; /* attach sleds if there are any */
	bool samples;
	bool multi;	       /* uprobe_multi links */
	bool all_processes;    /* probes are on all processes that map an object: --follow, --exec */
	bool may_patch;	       /* patch sleds where possible */
	bool memory;	       /* record calls of patched sleds in memory where possible */
	bool rdpid;	       /* memory only: the stub may execute rdpid */
	const char *no_memory; /* why memory mode works in no process; NULL: it may work, or is not requested */
	struct stat exec_file; /* --exec */
};

/*
 * Omits sleds if a capability for them is missing, and prints that. Returns 0, or -errno with a message (why.h):
 * -EACCES if there is nothing else to record, or an error of stat(2) for the file of --exec.
 */
int xp_plan_make(struct xp_plan *plan, const struct xp_options *options, const struct xp_preflight *preflight);

/* Returns which parts of user stacks the BPF programs copy. */
enum xp_sample_stacks xp_plan_stacks(const struct xp_options *options);
/* Returns whether xprof may choose between sampling events of threads and of CPUs, depending on the targets. */
bool xp_plan_chooses_events(const struct xp_plan *plan, const struct xp_options *options);
/* Returns whether context switches are recorded, for perf.data. */
bool xp_plan_switches(const struct xp_plan *plan, const struct xp_options *options);
/* Returns the size of each CPU's ring buffer. */
uint64_t xp_plan_ring_bytes(const struct xp_plan *plan, const struct xp_options *options);

#endif
