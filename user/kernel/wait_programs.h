/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The BPF side of record --off-cpu: loads the programs of bpf/wait.bpf.c, attaches them to the scheduler's tracepoints,
 * runs their iterators, and reads their counters. The programs write their records to the rings that the other BPF
 * programs of the recording use.
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
 * Waits of at least this duration are always recorded, because a thread can have only few of them. Each step of
 * xp_wait_programs_slow() doubles this duration.
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
	bool children;	 /* also threads of the targets' children */
	uint64_t min_ns; /* shorter waits are only counted */
};

/* Zeroed: closed. */
struct xp_wait_programs {
	struct wait_bpf *skeleton;
	unsigned int cpus;
	struct bpf_link *scan;
	struct bpf_link *finish;
};

/*
 * Loads the programs. Returns 0 or -errno, with a sentence (why.h): -EOPNOTSUPP if the kernel lacks a required feature
 * or refuses the programs, or -ENOMEM.
 */
int xp_wait_programs_open(struct xp_wait_programs *programs, const struct xp_wait_options *options);
void xp_wait_programs_close(struct xp_wait_programs *programs);

/* Attaches the programs. They also record threads that targets create later. Returns 0 or -errno. */
int xp_wait_programs_attach(struct xp_wait_programs *programs);
/*
 * Starts recording the existing threads of new targets. Calls take() with the start of the wait of each waiting thread,
 * without the stack; the caller reads stack_bytes of the stack. Skips threads whose stack is in a file. Returns 0,
 * -errno, or the first error of take().
 */
int xp_wait_programs_scan(struct xp_wait_programs *programs,
			  int (*take)(void *arg, const struct xp_event_sample *begin), void *arg);
/*
 * Ends all open waits and sends all sums. No event arrives after this call. Calls make_room() regularly, so that the
 * caller can read the rings before they are full. Returns 0 or -errno.
 */
int xp_wait_programs_stop(struct xp_wait_programs *programs, void (*make_room)(void *arg), void *arg);

/* Sets the price of a wait to 2^steps times the normal credit. steps: at most XP_WAIT_SLOW_MAX. */
void xp_wait_programs_slow(struct xp_wait_programs *programs, unsigned int steps);
/* Reads the sums of all CPUs' counters. Returns 0 or -errno. */
int xp_wait_programs_counters(const struct xp_wait_programs *programs, struct xp_wait_counters *counters);

#endif
