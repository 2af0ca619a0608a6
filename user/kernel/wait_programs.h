/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The BPF side of record --off-cpu: loads the programs of bpf/wait.bpf.c, attaches them to the scheduler's tracepoints,
 * runs their iterators, and reads their counters. Their records go into the rings of a recording's other programs.
 */
#ifndef XPROF_KERNEL_WAIT_PROGRAMS_H
#define XPROF_KERNEL_WAIT_PROGRAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel/programs.h"
#include "xprof/wait.h"

/*
 * Waits of this duration are recorded whatever they cost: a thread has few of them. It doubles for each step of
 * xp_wait_programs_slow().
 */
#define XP_WAIT_LONG_NS 10000000ull
#define XP_WAIT_SLOW_MAX 10u

struct wait_bpf; /* bpftool's skeleton */
struct bpf_link;

struct xp_wait_options {
	const struct xp_programs *programs; /* loaded; their targets, rings and stack sizes are used */
	enum xp_sample_stacks stacks;
	bool all;	 /* threads of all processes, not only of targets */
	uint32_t tid;	 /* this thread only; 0: not given */
	bool children;	 /* those of targets, too */
	uint64_t min_ns; /* only count waits that are shorter */
};

/* Zeroed: closed. */
struct xp_wait_programs {
	struct wait_bpf *skeleton;
	unsigned int cpus;
	struct bpf_link *scan;
	struct bpf_link *finish;
};

/*
 * Loads the programs. Returns 0 or -errno, with a sentence (why.h): -EOPNOTSUPP if the kernel lacks what they need or
 * refuses them, or -ENOMEM.
 */
int xp_wait_programs_open(struct xp_wait_programs *programs, const struct xp_wait_options *options);
void xp_wait_programs_close(struct xp_wait_programs *programs);

/* From now on, threads that targets create are recorded. Returns 0 or -errno. */
int xp_wait_programs_attach(struct xp_wait_programs *programs);
/*
 * Records the threads that were there before: call it when there are new targets. take() gets the begin of the wait of
 * each that waits, without its stack, of which stack_bytes are worth reading; threads whose stack is in a file are left
 * out. Returns 0, -errno, or the error of take(), which ends it.
 */
int xp_wait_programs_scan(struct xp_wait_programs *programs,
			  int (*take)(void *arg, const struct xp_event_sample *begin), void *arg);
/*
 * Ends all waits that are open, and reports all sums. No record arrives after this. make_room() is called after each
 * few threads, to take records from rings that fill. Returns 0 or -errno.
 */
int xp_wait_programs_stop(struct xp_wait_programs *programs, void (*make_room)(void *arg), void *arg);

/* A wait costs its thread 2^steps times as much of what it may have recorded. At most XP_WAIT_SLOW_MAX. */
void xp_wait_programs_slow(struct xp_wait_programs *programs, unsigned int steps);
/* Sums over all CPUs. Returns 0 or -errno. */
int xp_wait_programs_counters(const struct xp_wait_programs *programs, struct xp_wait_counters *counters);

#endif
