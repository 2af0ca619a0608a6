/* SPDX-License-Identifier: BSD-2-Clause */
/* The BPF side of a recording: loads the programs and maps, attaches the process tracepoints, reads the counters. */
#ifndef XPROF_KERNEL_PROGRAMS_H
#define XPROF_KERNEL_PROGRAMS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/x86_64/stub.h"
#include "base/clock.h"
#include "xprof/event.h"
#include "xprof/ksym.h"

struct xprof_bpf; /* bpftool's skeleton */

struct xp_programs_options {
	uint32_t targets;  /* limit on the processes that are followed at a time */
	bool tasks;	   /* load the programs for task events: exec, fork, exit */
	bool sleds;	   /* load the programs for sleds */
	bool stub;	   /* load the programs for the stub of patched sleds */
	bool threads;	   /* load the programs for tasks that share a process's memory */
	bool samples;	   /* load the program for sampling events, and that for changes of JIT code */
	bool switches;	   /* load the program for switches of threads: those of targets, or as said below */
	uint32_t counters; /* number of call counters, for the program that counts calls; 0: do not load it */
	enum xp_sample_stacks stacks;
	bool uprobe_multi; /* programs for uprobe_multi links; otherwise for perf events */
	bool only_targets; /* uprobes are on all processes of a binary: record only the targets */
	bool follow_children;
	bool births; /* count the threads and children that targets create, and record samples of CPUs while told to */
	uint64_t exec_inode; /* --exec: processes that run this file become targets; 0: none */
	unsigned int args;   /* 1..XP_ARGS_MAX */
	bool switches_of_all;
	pid_t switches_of_tid; /* 0: no thread in particular */
};

struct xp_programs {
	struct xprof_bpf *skeleton;
	unsigned int cpus; /* possible CPUs */
	bool threads;	   /* as in the options */
};

/* Loads the programs. Returns 0 or libbpf's -errno; libbpf's messages appear with -v. The caller frees. */
int xp_programs_open(struct xp_programs *programs, const struct xp_programs_options *options);
/* Detaches and unloads everything; safe on a zeroed struct. */
void xp_programs_close(struct xp_programs *programs);

/* Attaches to exec, fork and exit of targets, and with `threads` to new tasks that share their memory. */
int xp_programs_attach_tasks(struct xp_programs *programs);

/* Attaches to the scheduler's switches of threads. Returns 0 or -errno. */
int xp_programs_attach_switches(struct xp_programs *programs);
void xp_programs_detach_switches(struct xp_programs *programs);

int xp_programs_add_target(struct xp_programs *programs, pid_t pid);
bool xp_programs_is_target(const struct xp_programs *programs, pid_t pid);
/* How many threads, and with follow_children how many children, targets have created so far, modulo 2^32. */
uint32_t xp_programs_births(const struct xp_programs *programs);
/* Whether the samples of the targets are those of the CPUs' events, not those of their threads' events. */
void xp_programs_sample_cpus(struct xp_programs *programs, bool cpus);
/*
 * How many programs a target has executed so far, see struct xp_event_task; also 0 if it has ended, or is not a target.
 */
uint32_t xp_programs_execs(const struct xp_programs *programs, pid_t pid);

/*
 * From now on this target (0: no target) gets SIGSTOP, meant for its tracer, whenever its first thread changes the list
 * of loaded objects.
 */
void xp_programs_stop_at_link_map(struct xp_programs *programs, pid_t pid);

/* The program for a sled; the descriptor remains owned by the programs. */
int xp_programs_sled_fd(const struct xp_programs *programs, enum xp_event_kind kind, bool conditional);
/* The program that counts calls. Its cookies are counter indices. */
int xp_programs_count_fd(const struct xp_programs *programs);
/* Reads counters, summed over all CPUs. Returns 0 or -errno, for example -ENOMEM. */
int xp_programs_counts(const struct xp_programs *programs, uint64_t *counts, uint32_t count);
/* The program for a slot of the stub (stub.h). */
int xp_programs_stub_fd(const struct xp_programs *programs, enum xp_stub_slot slot);
/* Tells where a process has the struct xp_call_slot of the threads with this fs base; 0: nowhere any more. */
void xp_programs_set_call_slot(const struct xp_programs *programs, pid_t pid, uint64_t fs_base, uint64_t address);
/* How many records of threads' births and ends were lost so far, for lack of room. */
const uint64_t *xp_programs_tasks_lost(const struct xp_programs *programs);
/* Threads that have told that they have no call ring tell it once more. */
void xp_programs_tell_again(const struct xp_programs *programs);
/* Whether BPF knows which threads may not execute rdtsc: the others get no call ring. If not, none gets one. */
bool xp_programs_know_tsc(const struct xp_programs *programs);
/* The threads that the calling task traces, valid until the next call. Returns their number. */
size_t xp_programs_tracees(const struct xp_programs *programs, const struct xp_bpf_tracee **tracees);
/* The program for the slots that record calls in memory. */
int xp_programs_memory_fd(const struct xp_programs *programs);
int xp_programs_link_map_fd(const struct xp_programs *programs);
int xp_programs_sample_fd(const struct xp_programs *programs);
/* Sets how much of this thread's stack is copied from now on. Returns 0 or -errno. */
int xp_programs_set_stack(struct xp_programs *programs, pid_t tid, const struct xp_stack_size *size);
int xp_programs_jit_fd(const struct xp_programs *programs);
int xp_programs_rings_fd(const struct xp_programs *programs);
/* Returns the descriptor, which the programs keep, of a map that another BPF object shares, or -errno. */
int xp_programs_map_fd(const struct xp_programs *programs, const char *name);

/*
 * The kernel's symbolic names for its addresses; needs options.samples. An xp_ksym_describe; arg is the struct
 * xp_programs.
 */
int xp_programs_describe(void *arg, const uint64_t *addresses, size_t count, char (*texts)[XP_KSYM_TEXT_BYTES]);

/* Reads the counters of all CPUs into counters[programs->cpus]. */
int xp_programs_counters(const struct xp_programs *programs, struct xp_bpf_counters *counters);
/*
 * Runs that the kernel skipped because the program was already running on that CPU. These events are lost before any
 * program sees them.
 */
uint64_t xp_programs_missed(const struct xp_programs *programs);

#endif
