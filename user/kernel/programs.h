/* SPDX-License-Identifier: BSD-2-Clause */
/* The BPF side of a recording: loads the programs and maps, attaches the process tracepoints, reads the counters. */
#ifndef XPROF_PROGRAMS_H
#define XPROF_PROGRAMS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "arch/x86_64/stub.h"
#include "xprof/ksym.h"
#include "xprof/event.h"

struct xprof_bpf; /* bpftool's skeleton */

struct xp_programs_options {
	uint32_t targets;  /* most processes that are followed at once */
	bool tasks;	   /* the programs for what happens to them */
	bool sleds;	   /* those for their sleds */
	bool stub;	   /* those for the stub of patched sleds */
	bool samples;	   /* the program for sampling events, and that for changes of JIT code */
	uint32_t counters; /* how many: the program that counts calls; 0: not wanted */
	enum xp_sample_stacks stacks;
	bool uprobe_multi; /* programs for uprobe_multi links; otherwise for perf events */
	bool only_targets; /* uprobes are on all processes of a binary: record only the targets */
	bool follow_children;
	uint64_t exec_inode; /* --exec: processes that run this file become targets; 0: none */
	unsigned int args;   /* 1..XP_ARGS_MAX */
};

struct xp_programs {
	struct xprof_bpf *skeleton;
	unsigned int cpus; /* possible */
};

/* Loads. Errors are libbpf's (negative errno); its own messages appear with -v. The caller frees. */
int xp_programs_open(struct xp_programs *programs, const struct xp_programs_options *options);
/* Detaches and unloads everything; safe on a zeroed struct. */
void xp_programs_close(struct xp_programs *programs);

/* Puts the clock's counters into the map that programs read the TSC from; again after xp_clock_update() said so. */
int xp_programs_set_clock(struct xp_programs *programs, const struct xp_clock *clock);
/* exec, fork and exit of targets. */
int xp_programs_attach_tasks(struct xp_programs *programs);

int xp_programs_add_target(struct xp_programs *programs, pid_t pid);
void xp_programs_remove_target(struct xp_programs *programs, pid_t pid);
bool xp_programs_is_target(const struct xp_programs *programs, pid_t pid);
/* Programs that a target has executed so far, see struct xp_rec_task; 0 as well when it is gone, or is no target. */
uint32_t xp_programs_execs(const struct xp_programs *programs, pid_t pid);

/*
 * This target (0: none any more) gets SIGSTOP, meant for its tracer, whenever its first thread changes its list of loaded
 * objects.
 */
void xp_programs_stop_at_link_map(struct xp_programs *programs, pid_t pid);

/* The program for a sled; the descriptor stays the programs'. */
int xp_programs_sled_fd(const struct xp_programs *programs, enum xp_rec_kind kind, bool conditional);
/* The program that counts calls: its cookies are the counters' indices. */
int xp_programs_count_fd(const struct xp_programs *programs);
/* Reads counters, of all CPUs together. -ENOMEM and others. */
int xp_programs_counts(const struct xp_programs *programs, uint64_t *counts, uint32_t count);
/* Reads one. */
int xp_programs_count(const struct xp_programs *programs, uint32_t index, uint64_t *count);
/* The program for a slot of the stub (stub.h). */
int xp_programs_stub_fd(const struct xp_programs *programs, enum xp_stub_slot slot);
int xp_programs_link_map_fd(const struct xp_programs *programs);
int xp_programs_sample_fd(const struct xp_programs *programs);
/* So much of this thread's stack is copied from now on. -errno. */
int xp_programs_set_stack(struct xp_programs *programs, pid_t tid, const struct xp_stack_size *size);
int xp_programs_jit_fd(const struct xp_programs *programs);
int xp_programs_rings_fd(const struct xp_programs *programs);

/* The kernel's words for its addresses; with options.samples. A xp_kallsyms_describe, arg is the struct xp_programs. */
int xp_programs_describe(void *arg, const uint64_t *addresses, size_t count, char (*texts)[XP_KSYM_TEXT_BYTES]);

/* Reads the counters of all CPUs into counters[programs->cpus]. */
int xp_programs_counters(const struct xp_programs *programs, struct xp_bpf_counters *counters);
/* Runs that the kernel skipped because the program was already running on that CPU: events lost before any program. */
uint64_t xp_programs_missed(const struct xp_programs *programs);

#endif
