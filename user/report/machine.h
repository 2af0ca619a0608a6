/* SPDX-License-Identifier: BSD-2-Clause */
/* The CPU time of a whole recording: by program and by cgroup, in the kernel, and idle. */
#ifndef XPROF_REPORT_MACHINE_H
#define XPROF_REPORT_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/u64_map.h"
#include "unwind/unwind.h"

/* The report shows processes with fewer samples together: with 5 samples, the standard error is 45 %. */
#define XP_MACHINE_SHORT_SAMPLES 5

/* The samples of the machine, or of a part of it. */
struct xp_report_share {
	const char *name; /* clean; NULL: unknown */
	uint64_t processes;
	uint64_t samples;
	uint64_t kernel_samples; /* samples in the kernel, included in samples */
	uint64_t sampled_ns;	 /* CPU time that the samples represent */
};

struct xp_report_shares {
	struct xp_report_share *all; /* most samples first, after xp_report_machine_finish() */
	size_t count;
	/* private */
	size_t room;
	struct xp_u64_map by_name;
};

/* Empty if zeroed. */
struct xp_report_machine {
	struct xp_report_share total;
	struct xp_report_shares programs; /* processes grouped by name */
	struct xp_report_shares cgroups;  /* empty if no cgroup is known */
	struct xp_report_share few;	  /* the processes with fewer than XP_MACHINE_SHORT_SAMPLES samples */
	uint64_t length_ns;		  /* length of the recording; 0: unknown */
	uint64_t cpus; /* CPUs whose processes were all sampled; 0: unknown, or only some processes */
	/* With cpus: the time of these CPUs minus sampled_ns, at least 0. Includes the time of lost samples. */
	uint64_t idle_ns;
	/* As in struct xp_facts_summary. */
	uint64_t stack_ends[XP_UNWIND_ENDS];
};

/* Adds a process. Its name and cgroup are interned: equal strings have one address. Returns 0 or -ENOMEM. */
int xp_report_machine_add(struct xp_report_machine *machine, const struct xp_report_share *process, const char *cgroup);
/* Call this once, after the last process. */
void xp_report_machine_finish(struct xp_report_machine *machine, uint64_t length_ns, uint64_t cpus);
void xp_report_machine_free(struct xp_report_machine *machine);

#endif
