/* SPDX-License-Identifier: BSD-2-Clause */
/* The CPU time of a whole recording: by program and cgroup, in the kernel, and idle. Without functions. */
#ifndef XPROF_REPORT_MACHINE_H
#define XPROF_REPORT_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/u64_map.h"
#include "unwind/unwind.h"

/* Processes with fewer samples are listed together: the error of 5 samples is 45 %. */
#define XP_MACHINE_SHORT_SAMPLES 5

/* The samples of the machine, or of a part of it. */
struct xp_report_share {
	const char *name; /* clean; NULL: unknown */
	uint64_t processes;
	uint64_t samples;
	uint64_t kernel_samples; /* of these, in the kernel */
	uint64_t sampled_ns;	 /* CPU time that the samples represent */
};

struct xp_report_shares {
	struct xp_report_share *all; /* most samples first, after xp_report_machine_finish() */
	size_t count;
	/* private */
	size_t room;
	struct xp_u64_map by_name;
};

/* Zeroed at first. */
struct xp_report_machine {
	struct xp_report_share total;
	struct xp_report_shares programs; /* by name */
	struct xp_report_shares cgroups;  /* none if all are unknown */
	struct xp_report_share few;	  /* the processes with fewer than XP_MACHINE_SHORT_SAMPLES samples */
	uint64_t length_ns;		  /* of the recording; 0: unknown */
	uint64_t cpus;			  /* CPUs that were sampled as a whole; 0: unknown, or only some processes */
	/*
	 * CPU time without a sample of a process, lost ones included: the CPUs' time less sampled_ns. Not negative.
	 * Only with cpus.
	 */
	uint64_t idle_ns;
	/* As in struct xp_facts_summary. */
	uint64_t stack_ends[XP_UNWIND_ENDS];
};

/* Adds a process. name and cgroup are from one pool, where equal texts have one address. Returns 0 or -ENOMEM. */
int xp_report_machine_add(struct xp_report_machine *machine, const struct xp_report_share *process, const char *cgroup);
/* Call it once, after the last process. */
void xp_report_machine_finish(struct xp_report_machine *machine, uint64_t length_ns, uint64_t cpus);
void xp_report_machine_free(struct xp_report_machine *machine);

#endif
