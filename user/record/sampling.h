/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sampling part of a recording: owns the sampling events, the side-band that reports mappings of processes, and the
 * samples until they are in perf.data. All members are zero if nothing is sampled.
 */
#ifndef XPROF_RECORD_SAMPLING_H
#define XPROF_RECORD_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel/attach_samples.h"
#include "kernel/programs.h"
#include "kernel/sideband.h"
#include "record/plan.h"
#include "record/usdt_probes.h"
#include "sample/samples.h"
#include "trace/process.h"

struct xp_sampling {
	/* Borrowed from the recording: */
	const struct xp_options *options;
	const struct xp_plan *plan;
	const struct xp_clock *clock;
	struct xp_programs *programs;
	const struct xp_processes *targets; /* processes whose threads are sampled */
	int dir_fd;			    /* descriptor of the recording's directory */
	int shared_fd;			    /* directory that the parts share; -1: none */
	const struct xp_usdt_probes_on *usdt;
	/* Called with the address of a function that a JIT compiler calls after each change of its code. */
	void (*watch_jit)(void *arg, pid_t pid, int fd, uint64_t offset);
	void *watch_arg;

	struct xp_sampler *sampler; /* NULL: nothing is sampled */
	struct xp_sideband *sideband;
	struct xp_samples samples;
	uint64_t switches; /* events of the scheduler in perf.data */
	bool *cpus;	   /* CPUs that may be sampled: all, or those of --cpu */
	size_t cpu_count;
	/* Currently: always with --all, otherwise while targets create threads and children, or get a CPU often. */
	bool samples_cpus;
	uint64_t cpus_tsc;	  /* start of sampling the CPUs */
	uint32_t births;	  /* last value of xp_programs_births() */
	uint64_t slices;	  /* last number of time slices of the targets, see target/target.h */
	uint64_t slices_tsc;	  /* time at which slices were read */
	uint64_t quiet_tsc;	  /* if no reason appears until then, CPUs are no longer sampled */
	uint64_t next_repair_tsc; /* next repair of what the side-band lost */
};

/* Call this after the BPF side and the output directory are open. Returns 0 or -errno with a message (why.h). */
int xp_sampling_setup(struct xp_sampling *sampling);
void xp_sampling_free(struct xp_sampling *sampling);

/* Begins a new part of the recording at this time, in this directory. Returns 0 or -ENOMEM. */
int xp_sampling_begin_part(struct xp_sampling *sampling, int dir_fd, uint64_t tsc);

/* Samples a process, which gets a profile even without samples. Returns 0 or -errno, with a message (why.h). */
int xp_sampling_add_process(struct xp_sampling *sampling, pid_t pid);
/*
 * Samples the thread or the machine that the command line names, and scans the sampled processes. command: the command
 * that xprof started; 0: none. Errors as above.
 */
int xp_sampling_attach(struct xp_sampling *sampling, pid_t command);
/* The number of CPUs that may be sampled and are online now. */
size_t xp_sampling_cpus(const struct xp_sampling *sampling);

/* Applies what the side-band reported before this TSC. Does nothing without sampling, as all below. */
int xp_sampling_apply_sideband(struct xp_sampling *sampling, uint64_t tsc);
/* Handles a context switch, for perf.data (arrivals.c). Returns 0. */
int xp_sampling_switch(struct xp_sampling *sampling, const struct xp_arrival *arrival);
/* Call this well before xp_sampling_setup(): starts to measure how often the targets get a CPU. */
void xp_sampling_look(struct xp_sampling *sampling);
/*
 * Call this in every pass. Samples the CPUs while targets create threads and children, because events of threads miss
 * most of a short-lived thread, and while starting timers for threads would cost more than timers of CPUs.
 */
void xp_sampling_choose(struct xp_sampling *sampling);
/* Reads from /proc what the side-band lost. Call this after a pass: older fork or exec events would undo the result. */
int xp_sampling_repair(struct xp_sampling *sampling);
/* Call this every second. */
int xp_sampling_tend(struct xp_sampling *sampling);

/* Returns whether there is a perf.data: without it, no profile can be made. Call this after xp_sampling_finish(). */
bool xp_sampling_has_file(const struct xp_sampling *sampling);
/* Ends perf.data, stores the names of its code, and reports what is incomplete. */
int xp_sampling_finish(struct xp_sampling *sampling);

#endif
