/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes waits (record --off-cpu). The record of the start of a wait contains the user stack, and is kept until the
 * record of the end arrives. Both together become a sample (samples.h) with raw data (format/wait_record.h). Also
 * stores the sums of all waits of each thread. The BPF programs count these sums, including waits that are not
 * recorded.
 */
#ifndef XPROF_SAMPLE_WAITS_H
#define XPROF_SAMPLE_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/u64_map.h"
#include "sample/first_stacks.h"
#include "sample/samples.h"
#include "xprof/wait.h"

/* Maximum size of the stored start records, one per waiting thread. Beyond it, waits have no user stack. */
#define XP_WAITS_BYTES_MAX (16u << 20)
/*
 * The maximum number of thread sums. Further threads of a program share one sum, with TID 0. Beyond twice the limit,
 * all threads share one sum, with PID 0, too: a machine has up to 4 million TIDs, and short-lived processes can use all
 * of them.
 */
#define XP_WAIT_SUMS_MAX 65536u

/* The sums of a thread in one program, while it was recorded. running_ns is span_ns minus all waits. */
struct xp_wait_sum {
	pid_t pid;
	pid_t tid;
	unsigned int image; /* xp_image.number; 0: all images */
	bool goes_on;	    /* true: the thread continues in another program, which has its own sum */
	char comm[16];
	uint64_t span_ns;
	uint64_t blocked_ns;
	uint64_t runnable_ns;
	uint64_t waits;
	uint64_t missed; /* waits that the kernel counted, but did not report */
};

/* Empty if zeroed. */
struct xp_waits {
	struct xp_samples *samples;    /* set by the caller */
	struct xp_first_stacks *first; /* likewise; owned; NULL: none */

	struct xp_wait_sum *sums;
	size_t sum_count;
	size_t sum_room;
	/* Sums of the recorded waits by kind, with weights. */
	double blocked_ns;
	double runnable_ns;

	/* private */
	struct xp_u64_map begins; /* by tid */
	size_t bytes;
	struct xp_u64_map sums_by_thread; /* image, pid and tid -> index */
	uint8_t *together;		  /* buffer for a start and an end record */
};

void xp_waits_free(struct xp_waits *waits);

/*
 * Starts a new part of the recording, without sums. A wait, or the sum of a thread, belongs to the part in which it
 * ends.
 */
void xp_waits_begin_part(struct xp_waits *waits);

/* Process events of kind XP_EVENT_WAIT_BEGIN, XP_EVENT_WAIT, and XP_EVENT_WAIT_SUM. Return 0 or -ENOMEM. */
int xp_waits_begin(struct xp_waits *waits, const struct xp_arrival *arrival);
int xp_waits_end(struct xp_waits *waits, const struct xp_arrival *arrival);
int xp_waits_sum(struct xp_waits *waits, const struct xp_arrival *arrival);

#endif
