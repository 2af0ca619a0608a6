/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Samples that wait for an unwind table: copies of them, with what their process had mapped at the time. Bounded in
 * memory; the caller bounds how long they wait.
 */
#ifndef XPROF_WAITING_H
#define XPROF_WAITING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sample/sampled_process.h"
#include "xprof/event.h"

/* Of the samples and of the spaces that they hold. */
#define XP_WAITING_BYTES_MAX (24u << 20)

struct xp_waiting_sample {
	struct xp_waiting_sample *next;
	struct xp_image *image;	    /* outlives it */
	struct xp_space *space;	    /* shared */
	const struct xp_file *file; /* whose table it waits for */
	uint64_t file_offset;	    /* and for what of it */
	pid_t pid;
	uint64_t since_ns; /* CLOCK_MONOTONIC */
	uint64_t tsc;
	unsigned int cpu;
	size_t size;
	struct xp_rec_sample record; /* of size bytes */
};

/* Zeroed: empty. */
struct xp_waiting {
	struct xp_waiting_sample *first; /* the oldest */
	struct xp_waiting_sample *last;
	size_t count;
	size_t bytes;
};

/* Adds a sample behind all others; from and what it points to is copied, its space shared. -ENOSPC, -ENOMEM. */
int xp_waiting_add(struct xp_waiting *waiting, const struct xp_waiting_sample *from,
		   const struct xp_rec_sample *record);

/*
 * Offers each sample, the oldest first, to take(), which returns 0 when it is done with it, 1 when it has to wait on,
 * or a negative errno, which is returned at the end: the first one. A sample that gave an error is dropped.
 */
int xp_waiting_each(struct xp_waiting *waiting, int (*take)(void *arg, struct xp_waiting_sample *sample), void *arg);

void xp_waiting_free(struct xp_waiting *waiting);

#endif
