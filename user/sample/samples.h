/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way of a sample: from the merge to its process (tasks.h), through the unwinder (stacks.h), where it may have to
 * wait for a table (waiting.h), into the perf.data (perf_out.h), and through the names of JIT code (jit_samples.h),
 * where it may have to wait too, into the profile of the process's image.
 */
#ifndef XPROF_SAMPLES_H
#define XPROF_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample/jit_samples.h"
#include "sample/perf_out.h"
#include "unwind/stacks.h"
#include "profile/sym_files.h"
#include "sample/sampled_process.h"
#include "sample/pending_samples.h"
#include "xprof/event.h"

/*
 * So long a sample waits for a table at most; and so long all do at the end. A table takes some milliseconds to make,
 * ten times that on a busy machine, and there may be others before it.
 */
#define XP_SAMPLES_WAIT_NS 5000000000ull
#define XP_SAMPLES_DRAIN_NS 5000000000ull

/* seen = written + unstored, always: what was lost on the way is counted by the BPF side. */
struct xp_samples {
	int dir_fd;			/* set by the caller */
	xp_kallsyms_describe *describe; /* names kernel code; set by the caller */
	void *describe_arg;
	struct xp_jit_samples jit; /* its part for the caller too */
	struct xp_perf_out *perf;  /* set by the caller, whose it stays; NULL: none */

	struct xp_tasks tasks;
	struct xp_stacks *stacks; /* NULL: no snapshots come */
	struct xp_waiting waiting;
	struct xp_sym_files *sym_files;
	struct xp_profile_store *store; /* NULL: not needed yet */
	uint64_t samples;
	uint64_t kernel_samples;
	uint64_t unstored; /* of samples: their profile could not be written */
	/* Of the sample in hand: kernel, then user. */
	struct xp_profile_frame frames[XP_SAMPLE_FRAMES_MAX + XP_UNWIND_FRAMES_MAX];
};

/* stacks: NULL when no snapshots come. -ENOMEM, and those of xp_stacks_new(). */
int xp_samples_init(struct xp_samples *samples, const struct xp_stacks_options *stacks);
void xp_samples_free(struct xp_samples *samples);

/* cpu, tsc: those of the record, which is checked (rec_check.h). -ENOMEM. */
int xp_samples_record(struct xp_samples *samples, const struct xp_rec *record, size_t size, unsigned int cpu,
		      uint64_t tsc);
/*
 * To be called every second. Forgets what processes had mapped that are gone. Where all profiles take much memory,
 * those that had no sample since the last call go to the disk; on one that is full they stay.
 */
void xp_samples_rest(struct xp_samples *samples);
/* To be called often: samples whose table has come, or that have waited for too long, go on their way. -ENOMEM. */
int xp_samples_settle(struct xp_samples *samples);

/* To be called every second: looks for the names of JIT code. */
int xp_samples_refresh(struct xp_samples *samples);
/* Process pid said at this time that its JIT code changed. -ENOMEM. */
int xp_samples_jit_told(struct xp_samples *samples, pid_t pid, uint64_t tsc);

/*
 * When nothing more comes: samples that wait for tables and names are waited for, within a bound, and the jitdumps are
 * ended. The first error.
 */
int xp_samples_drain(struct xp_samples *samples);
/* Then: writes all profiles and what their readers need beside them. period_ns: what a sample stands
 * for. */
int xp_samples_finish(struct xp_samples *samples, uint64_t period_ns);

/* How the walks of all user stacks ended. */
void xp_samples_stacks(const struct xp_samples *samples, uint64_t stacks[XP_UNWIND_ENDS]);

#endif
