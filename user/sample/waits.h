/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The path of a wait (record --off-cpu): the record of its start, with the user stack, is kept until the record of its
 * end arrives. Both together become a sample (samples.h) with the raw data of a wait (format/wait_record.h). Also the
 * sums of all waits of each thread, which the BPF side counts, recorded or not.
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

/* Bytes of the begins that are kept: one for each thread that waits. Beyond, their stacks are left out. */
#define XP_WAITS_BYTES_MAX (16u << 20)
/*
 * The limit of sums of threads. Further threads of a program share one sum, with TID 0. Beyond twice the limit, all
 * threads share one sum, with PID 0, too: a machine has up to 4 million ids, and short-lived processes use all of them.
 */
#define XP_WAIT_SUMS_MAX 65536u

/* A thread in a program, while it was recorded: running_ns is what is left of span_ns. */
struct xp_wait_sum {
	pid_t pid;
	pid_t tid;
	unsigned int image; /* xp_image.number; 0: of any */
	bool goes_on;	    /* in another program, which has a sum of its own */
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
	/* The kinds of the recorded waits, with weights. */
	double blocked_ns;
	double runnable_ns;

	/* private */
	struct xp_u64_map begins; /* by tid */
	size_t bytes;
	struct xp_u64_map sums_by_thread; /* image, pid and tid -> index */
	uint8_t *together;		  /* a begin and an end */
};

void xp_waits_free(struct xp_waits *waits);

/*
 * A new part of the recording begins: without sums. A wait that goes on is one of the part in which it ends, and the
 * sums of a thread are in the one in which it ends.
 */
void xp_waits_begin_part(struct xp_waits *waits);

/* Take events of kind XP_EVENT_WAIT_BEGIN, XP_EVENT_WAIT, and XP_EVENT_WAIT_SUM. Return 0 or -ENOMEM. */
int xp_waits_begin(struct xp_waits *waits, const struct xp_arrival *arrival);
int xp_waits_end(struct xp_waits *waits, const struct xp_arrival *arrival);
int xp_waits_sum(struct xp_waits *waits, const struct xp_arrival *arrival);

#endif
