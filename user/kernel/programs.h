/* SPDX-License-Identifier: BSD-2-Clause */
/* The BPF side of a recording: loads the programs and maps, attaches the process tracepoints, reads the counters. */
#ifndef XPROF_KERNEL_PROGRAMS_H
#define XPROF_KERNEL_PROGRAMS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/x86_64/stub.h"
#include "base/clock.h"
#include "xprof/event.h"
#include "xprof/ksym.h"

struct xprof_bpf; /* bpftool's skeleton */

struct xp_programs_options {
	uint32_t targets; /* limit on the processes that are followed at a time */
	bool tasks;	  /* load the programs for task events: exec, fork, exit */
	bool sleds;	  /* load the programs for sleds */
	bool usdt;	  /* load the program for USDT probes */
	bool stub;	  /* load the programs for the stub of patched sleds */
	bool threads;	  /* load the programs for tasks that share a process's memory */
	bool samples;	  /* load the program for sampling events, and that for changes of JIT code */
	bool switches;	  /* load the program for context switches of targets; see switches_of_all */
	enum xp_sample_stacks stacks;
	bool uprobe_multi; /* programs for uprobe_multi links; otherwise for perf events */
	bool only_targets; /* uprobes are on all processes of a binary: record only the targets */
	bool follow_children;
	bool births;	       /* count threads and children that targets create; see xp_programs_sample_cpus() */
	uint64_t exec_inode;   /* --exec: processes that run this file become targets; 0: none */
	unsigned int args;     /* 1..XP_ARGS_MAX */
	bool switches_of_all;  /* context switches of all threads */
	pid_t switches_of_tid; /* context switches of this thread only; 0: not given */
};

/* Descriptors, which the programs own; a program that is not loaded has none. */
struct xp_program_fds {
	int sleds[XP_EVENT_GO_EXIT + 1]; /* by kind */
	int conditional_tail_exit;
	int stub[XP_STUB_SLOTS];
	int memory_call; /* for the slots that record calls in memory */
	int link_map;
	int jit;
	int usdt;
	int sample;
	int rings; /* the array of rings */
};

struct xp_programs {
	struct xprof_bpf *skeleton;
	struct xp_program_fds fds;
	unsigned int cpus; /* possible CPUs */
	bool threads;	   /* as in the options */
	/* Protects the memory in which name_ksyms() answers: child processes ask, too. Shared with them. */
	pthread_mutex_t *naming;
};

/* Loads the programs. Returns 0 or libbpf's -errno; libbpf's messages appear with -v. The caller frees. */
int xp_programs_open(struct xp_programs *programs, const struct xp_programs_options *options);
/* Detaches and unloads everything; safe on a zeroed struct. */
void xp_programs_close(struct xp_programs *programs);

/* Attaches to exec, fork and exit of targets, and with `threads` to new tasks that share their memory. */
int xp_programs_attach_tasks(struct xp_programs *programs);

/* Attaches to context switches. Returns 0 or -errno. */
int xp_programs_attach_switches(struct xp_programs *programs);
void xp_programs_detach_switches(struct xp_programs *programs);

int xp_programs_add_target(struct xp_programs *programs, pid_t pid);
bool xp_programs_is_target(const struct xp_programs *programs, pid_t pid);
/* Returns the number of threads, and with follow_children of children, that targets have created, modulo 2^32. */
uint32_t xp_programs_births(const struct xp_programs *programs);
/* cpus: record samples of the events of CPUs; otherwise of the events of the targets' threads. */
void xp_programs_sample_cpus(struct xp_programs *programs, bool cpus);
/*
 * Returns the number of programs that a target has executed, see struct xp_event_task; 0 also if it is no target (any
 * more).
 */
uint32_t xp_programs_execs(const struct xp_programs *programs, pid_t pid);

/* Stops this target with SIGSTOP whenever its first thread changes the list of loaded objects. 0: no target. */
void xp_programs_stop_at_link_map(struct xp_programs *programs, pid_t pid);

/* Returns the program for a sled; conditional: for a conditional tail exit. */
int xp_programs_sled_fd(const struct xp_programs *programs, enum xp_event_kind kind, bool conditional);
/* Sets the address of the struct xp_call_header, in the process, of threads with this fs base; 0: there is none. */
void xp_programs_set_call_header(const struct xp_programs *programs, pid_t pid, uint64_t fs_base, uint64_t address);
/* Returns the counter of lost events of thread starts and exits. */
const uint64_t *xp_programs_tasks_lost(const struct xp_programs *programs);
/* Makes the programs report threads without a call ring again. */
void xp_programs_tell_again(const struct xp_programs *programs);
/* Returns whether BPF can detect threads that must not execute rdtsc. If it cannot, no thread gets a call ring. */
bool xp_programs_know_tsc(const struct xp_programs *programs);
/* Lists the threads that the calling task traces; valid until the next call. Returns their number. */
size_t xp_programs_tracees(const struct xp_programs *programs, const struct xp_bpf_tracee **tracees);
/* Sets how much of this thread's stack the programs copy. Returns 0 or -errno. */
int xp_programs_set_stack(struct xp_programs *programs, pid_t tid, const struct xp_stack_size *size);
/* Sets what the program reads at a place, below XP_USDT_PLACES_MAX. Returns 0 or -errno. */
int xp_programs_set_usdt(const struct xp_programs *programs, uint32_t index, const struct xp_usdt_place *place);
/* Returns the descriptor, which the programs keep, of a map that another BPF object shares, or -errno. */
int xp_programs_map_fd(const struct xp_programs *programs, const char *name);

/*
 * Gets the kernel's symbolic names for its addresses; requires options.samples. An xp_ksym_describe; arg is the struct
 * xp_programs.
 */
int xp_programs_describe(void *arg, const uint64_t *addresses, size_t count, char (*texts)[XP_KSYM_TEXT_BYTES]);

/* Reads the counters of all CPUs into counters[programs->cpus]. */
int xp_programs_counters(const struct xp_programs *programs, struct xp_bpf_counters *counters);
/*
 * Returns the number of runs that the kernel skipped because the program was already running on that CPU: these events
 * are lost.
 */
uint64_t xp_programs_missed(const struct xp_programs *programs);

#endif
