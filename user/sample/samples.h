/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The path of a sample or a wait: from the merge to its process (sampled_process.h), through the unwinder
 * (unwind/stacks.h), where it may wait for a table (pending_samples.h), into the perf.data file (perf_out.h). On the
 * way, what names its code is kept for the end: binaries and kernel addresses (store/sym_files.h), JIT code
 * (jit_samples.h).
 */
#ifndef XPROF_SAMPLE_SAMPLES_H
#define XPROF_SAMPLE_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/arrival.h"
#include "store/sym_files.h"
#include "sample/jit_samples.h"
#include "sample/pending_samples.h"
#include "sample/perf_out.h"
#include "sample/sampled_process.h"
#include "store/sym_files.h"
#include "unwind/stacks.h"
#include "xprof/event.h"

/*
 * The longest time that a sample waits for a table, and that the drain at the end waits for all tables. Building a
 * table takes some milliseconds, ten times that on a busy machine, and other tables may be queued before it.
 */
#define XP_SAMPLES_WAIT_NS 5000000000ull
#define XP_SAMPLES_DRAIN_NS 5000000000ull

/* The BPF side counts the samples that were lost earlier; perf_out.h has the number of those in the file. */
struct xp_samples {
	int dir_fd;		    /* set by the caller */
	int shared_fd;		    /* likewise: as for xp_sym_files_new() */
	xp_ksym_describe *describe; /* names kernel code; set by the caller */
	void *describe_arg;
	/* The address of the code that is moved to this offset of a file of xprof; 0: unknown. Set by the caller. */
	uint64_t (*original)(const void *arg, uint64_t inode, uint64_t offset);
	const void *original_arg;
	struct xp_jits jits;	  /* has a part for the caller to fill in too */
	struct xp_perf_out *perf; /* set and owned by the caller */

	struct xp_sampled_processes processes;
	struct xp_stacks *stacks; /* NULL: samples have no stack dumps */
	struct xp_pending_samples waiting;
	struct xp_sym_files *sym_files;
	uint64_t samples;
	uint64_t kernel_samples;
	uint64_t waits;
	uint64_t usdt; /* hits of USDT probes */
	/* The current sample: kernel frames, then user frames. */
	struct xp_frame frames[XP_SAMPLE_FRAMES_MAX + XP_UNWIND_FRAMES_MAX];
};

/* stacks: NULL if samples have no stack dumps. Returns 0, -ENOMEM or the errors of xp_stacks_new(). */
int xp_samples_init(struct xp_samples *samples, const struct xp_stacks_options *stacks);
void xp_samples_free(struct xp_samples *samples);
/*
 * A new part of the recording begins, in this directory: without samples, images and names. Samples that wait belong to
 * the part before. The caller replaces `perf`. tsc: its start. Returns 0 or -ENOMEM.
 */
int xp_samples_begin_part(struct xp_samples *samples, int dir_fd, uint64_t tsc);
/* In a child process that fork(2) made: leaves the processes that serve the parent to the parent. */
void xp_samples_forked(struct xp_samples *samples);

/* Takes an event of kind XP_EVENT_SAMPLE. Returns 0 or -ENOMEM. */
int xp_samples_record(struct xp_samples *samples, const struct xp_arrival *arrival);
/* A wait that is over, as if it were a sample. */
struct xp_samples_wait {
	const struct xp_event_sample *record; /* where the thread waited; checked */
	size_t size;
	uint64_t tsc; /* of the end */
	unsigned int cpu;
	struct xp_wait_record wait;
};
/* Returns 0 or -ENOMEM. */
int xp_samples_wait(struct xp_samples *samples, const struct xp_samples_wait *wait);
/*
 * Takes an event of kind XP_EVENT_USDT, as a sample without callers. text: of less than XP_PERFDATA_USDT_BYTES, such as
 * "python:gc__start arg1=2". Returns 0 or -ENOMEM.
 */
int xp_samples_usdt(struct xp_samples *samples, const struct xp_arrival *arrival, const char *text);
/* Passes on the samples whose table has arrived or that have waited too long. Call it often. Returns 0 or -ENOMEM. */
int xp_samples_settle(struct xp_samples *samples);

/* Looks for new JIT code, and forgets processes that are gone. Call it every second. */
int xp_samples_refresh(struct xp_samples *samples);
/* Process pid reported at this time that its JIT code changed. Returns 0 or -ENOMEM. */
int xp_samples_jit_told(struct xp_samples *samples, pid_t pid, uint64_t tsc);

/*
 * Call this after the last record. Waits, within a limit, for the tables and names that samples need, and ends the
 * jitdumps. Returns the first error.
 */
int xp_samples_drain(struct xp_samples *samples);
/* After xp_samples_drain(): stores what names the code of the samples. Returns as xp_sym_files_write() does. */
int xp_samples_store_names(struct xp_samples *samples);

/* Counts how the walks of all user stacks ended. */
void xp_samples_stacks(const struct xp_samples *samples, uint64_t stacks[XP_UNWIND_ENDS]);

#endif
