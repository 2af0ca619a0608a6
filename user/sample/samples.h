/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes samples and waits. A sample comes from the merge, gets its process (sampled_process.h), is unwound
 * (unwind/stacks.h), may wait for an unwind table (pending_samples.h), and goes to the perf.data file (perf_out.h).
 * Data that names its code is stored for the end of the recording: binaries and kernel addresses (store/sym_files.h)
 * and JIT code (jit_samples.h).
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
 * The maximum time that a sample waits for a table, and that the drain at the end waits for all tables. Building a
 * table takes a few milliseconds, ten times as long on a busy machine, and other tables may be queued before it.
 */
#define XP_SAMPLES_WAIT_NS 5000000000ull
#define XP_SAMPLES_DRAIN_NS 5000000000ull

/*
 * The BPF programs count samples that were lost before they reached xprof; perf_out.h counts the samples in the file.
 */
struct xp_samples {
	int dir_fd;		    /* set by the caller */
	int shared_fd;		    /* likewise: as for xp_sym_files_new() */
	xp_ksym_describe *describe; /* names kernel code; set by the caller */
	void *describe_arg;
	/*
	 * Returns the original address of code that was moved to this offset of a file of xprof; 0: unknown. Set by the
	 * caller.
	 */
	uint64_t (*original)(const void *arg, uint64_t inode, uint64_t offset);
	const void *original_arg;
	struct xp_jits jits;	  /* the caller sets some of its members, too */
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
 * Starts a new part of the recording in this directory, without samples, images and names. Waiting samples belong to
 * the previous part. The caller replaces `perf`. tsc: start of the part. Returns 0 or -ENOMEM.
 */
int xp_samples_begin_part(struct xp_samples *samples, int dir_fd, uint64_t tsc);
/* Call this in a child process after fork(2). Leaves the helper processes to the parent. */
void xp_samples_forked(struct xp_samples *samples);

/* Processes an event of kind XP_EVENT_SAMPLE. Returns 0 or -ENOMEM. */
int xp_samples_record(struct xp_samples *samples, const struct xp_arrival *arrival);
/* A completed wait, which is processed like a sample. */
struct xp_samples_wait {
	const struct xp_event_sample *record; /* where the thread waited; already validated */
	size_t size;
	uint64_t tsc; /* end of the wait */
	unsigned int cpu;
	struct xp_wait_record wait;
};
/* Processes a wait. Returns 0 or -ENOMEM. */
int xp_samples_wait(struct xp_samples *samples, const struct xp_samples_wait *wait);
/*
 * Takes an event of kind XP_EVENT_USDT, as a sample without callers. text: of less than XP_PERFDATA_USDT_BYTES, such as
 * "python:gc__start arg1=2". Returns 0 or -ENOMEM.
 */
int xp_samples_usdt(struct xp_samples *samples, const struct xp_arrival *arrival, const char *text);
/* Passes on the samples whose table has arrived or that have waited too long. Call it often. Returns 0 or -ENOMEM. */
int xp_samples_settle(struct xp_samples *samples);

/* Polls for new JIT code, and removes processes that have exited. Call this every second. */
int xp_samples_refresh(struct xp_samples *samples);
/* Call this when process pid has reported that its JIT code changed at this time. Returns 0 or -ENOMEM. */
int xp_samples_jit_told(struct xp_samples *samples, pid_t pid, uint64_t tsc);

/*
 * Call this after the last record. Waits, within a limit, for the tables and names that samples require, and completes
 * the jitdumps. Returns the first error.
 */
int xp_samples_drain(struct xp_samples *samples);
/*
 * Stores the data that names the code of the samples. Call this after xp_samples_drain(). Returns the value of
 * xp_sym_files_write().
 */
int xp_samples_store_names(struct xp_samples *samples);

/* Sets stacks[] to the number of user stacks per enum xp_unwind_end. */
void xp_samples_stacks(const struct xp_samples *samples, uint64_t stacks[XP_UNWIND_ENDS]);

#endif
