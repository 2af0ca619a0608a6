/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The perf.data of a recording: its samples, and of the processes that were sampled what perf needs to name their code.
 * A process comes into the file with its first sample: then its name and all that it has mapped are written, as they
 * are at that time; from then on what the side-band tells of it. So the file is small on a machine with many processes,
 * and a binary is only looked at when code of its process runs.
 *
 * Memory of JIT compilers is told apart from that, of all processes, when it is mapped, and only what was not mapped
 * before: the compilers switch its protection all the time, each time the kernel tells of all that is one mapping then,
 * and perf puts what is mapped later over the code that `perf inject --jit` has put there.
 *
 * Nothing here stops a recording: an error ends the file, whose records up to there stay readable, and is told by
 * xp_perf_out_finish(). The file always has room on the disk for its next records and its end; when there is none left
 * it ends, and gives that room back to the recording's other files.
 */
#ifndef XPROF_PERF_OUT_H
#define XPROF_PERF_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "profile/profile.h"
#include "kernel/sideband.h"
#include "target/address_space.h"
#include "sample/sampled_process.h"
#include "unwind/unwind.h"
#include "xprof/event.h"

#define XP_PERF_OUT_NAME "perf.data"

struct xp_perf_out_options {
	int dir_fd; /* stays the caller's */
	const struct xp_clock *clock;
	const struct xp_tasks *tasks; /* as they are when the first record comes */
	bool hardware;		      /* cycles; else cpu-clock */
	const char *event;
	uint64_t period;  /* of each sample: cycles, or ns */
	bool uncompressed;
	uint64_t late_ns; /* samples may come so much later than others with greater TSCs */
};

struct xp_perf_out;

/* The file is made with its first record. -ENOMEM. */
int xp_perf_out_new(struct xp_perf_out **out, const struct xp_perf_out_options *options);
void xp_perf_out_free(struct xp_perf_out *out);

/*
 * A sample has come out of the merge, perhaps without its frames yet: makes perf know its process and thread as they
 * are now. space: of the process.
 */
void xp_perf_out_seen(struct xp_perf_out *out, const struct xp_rec_sample *record, uint64_t tsc,
		      const struct xp_space *space);
/* The sample itself, which was seen. frames: those of the kernel as in record, then the user's; count >= 1. */
void xp_perf_out_sample(struct xp_perf_out *out, const struct xp_rec_sample *record, uint64_t tsc, unsigned int cpu,
			const struct xp_profile_frame *frames, size_t count);
/* An event of the side-band: before and behind its effect on what its process has mapped. NULL: nothing is known. */
void xp_perf_out_before(struct xp_perf_out *out, const struct xp_sideband_event *event, const struct xp_space *before);
void xp_perf_out_event(struct xp_perf_out *out, const struct xp_sideband_event *event, const struct xp_space *behind);
/* Events were lost: what perf knows of mappings and names may be wrong, and is told again. */
void xp_perf_out_forget(struct xp_perf_out *out);
/* To be called every second: writes what has come so far, for the case that xprof is killed. */
void xp_perf_out_flush(struct xp_perf_out *out);
/* `perf inject --jit` is to read this jitdump: an absolute path that ends in /jit-NUMBER.dump. */
void xp_perf_out_jit(struct xp_perf_out *out, const char *path);

/* Ends the file. 0, or the first error, after which no record was written any more. */
int xp_perf_out_finish(struct xp_perf_out *out);
/* Samples in the file; after an error of write(2), a few of them may not be there. */
uint64_t xp_perf_out_samples(const struct xp_perf_out *out);
/* The size of the file, behind its end. */
uint64_t xp_perf_out_bytes(const struct xp_perf_out *out);

#endif
