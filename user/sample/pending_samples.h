/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Samples that wait for an unwind table or for the unwinding data of JIT code. Each entry is a copy of the sample and
 * the address space of its process at the time of the sample. This module limits the memory; the caller limits how long
 * a sample waits.
 */
#ifndef XPROF_SAMPLE_PENDING_SAMPLES_H
#define XPROF_SAMPLE_PENDING_SAMPLES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "format/wait_record.h"
#include "sample/sampled_process.h"
#include "xprof/event.h"

/*
 * Limits of the memory of waiting samples and their address spaces. A sample beyond the limit does not wait, so its
 * stack lacks frames.
 */
#define XP_WAITING_BYTES_MIN (8u << 20)
#define XP_WAITING_BYTES_MAX (96u << 20)

/*
 * Returns the limit for CPUs that are sampled hz times per second: the memory of 5 s of samples with 9 KB of stack
 * each. hz 0: the rate is unknown. A busy machine fills this memory, and malloc() keeps it: with 96 MB, a recording of
 * two CPUs at 99 Hz had an RSS of 140 MB.
 */
size_t xp_pending_samples_limit(uint64_t hz, unsigned int cpus);

struct xp_pending_sample {
	struct xp_pending_sample *next;
	struct xp_image *image;		/* outlives the sample */
	struct xp_address_space *space; /* shared */
	const struct xp_file *file;	/* the file whose table the sample waits for; NULL: it waits for JIT code */
	uint64_t file_offset;		/* the offset in the file that the table must cover */
	pid_t pid;
	uint64_t since_ns; /* CLOCK_MONOTONIC */
	uint64_t tsc;
	unsigned int cpu;
	bool is_wait;
	struct xp_wait_record wait;
	const char *usdt; /* as in xp_samples_usdt(); NULL: it is no USDT probe. Such a sample never waits */
	size_t size;
	struct xp_event_sample record; /* size bytes in all */
};

/* Empty if zeroed. */
struct xp_pending_samples {
	size_t bytes_max;		 /* set by the caller, see xp_pending_samples_limit() */
	struct xp_pending_sample *first; /* the oldest */
	struct xp_pending_sample *last;
	size_t count;
	size_t bytes;
};

/* Appends a sample. Copies from and what it points to; shares its address space. Returns 0, -ENOSPC or -ENOMEM. */
int xp_pending_samples_add(struct xp_pending_samples *waiting, const struct xp_pending_sample *from,
			   const struct xp_event_sample *record);

/*
 * Passes each sample to take(), the oldest first. take() returns 0 if the sample is complete, 1 if the sample must wait
 * longer, or -errno. A sample that caused an error is discarded. Returns the first error.
 */
int xp_pending_samples_each(struct xp_pending_samples *waiting,
			    int (*take)(void *arg, struct xp_pending_sample *sample), void *arg);

void xp_pending_samples_free(struct xp_pending_samples *waiting);

#endif
