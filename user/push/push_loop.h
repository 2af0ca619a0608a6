/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process between recording and engine: makes the profiles of finished recordings in a child (push_pack.h), keeps
 * the queue (push_queue.h), and has the sender (push_sender.h) send one profile after the other.
 *
 *	answer of the engine			what happens
 *	2xx with JSON				the profile is pushed
 *	400, 413, 415, 422			this profile is dropped: the engine will never accept it
 *	429, 5xx with Retry-After		pause for that time, at most times.pause_max_ms
 *	all others, and none			pause, twice as long after each further failure, with jitter
 *
 * After a failure, the next profile is tried, so one request that always fails does not block the queue.
 */
#ifndef XPROF_PUSH_PUSH_LOOP_H
#define XPROF_PUSH_PUSH_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "push/push_config.h"

/* Counts in memory that the processes share. */
struct xp_push_counts {
	uint64_t pushed;
	uint64_t queued;   /* still in the queue */
	uint64_t dropped;  /* dropped from the queue */
	uint64_t unstored; /* could not be added to the queue, and were dropped */
	bool stop;	   /* request to end now */
};

struct xp_push_loop_options {
	struct xp_push_config *config;
	const char *queue; /* path of the directory */
	struct xp_push_counts *counts;
};

/*
 * Runs until the end of file on the channel, and then until the queue is empty, a request fails, or times.end_ms have
 * passed. Each message on the channel is the path of a finished recording. Its first action is to answer with an int,
 * 0 or -errno: whether libcurl and the queue could be opened. Returns an exit code.
 */
int xp_push_loop(int channel, const struct xp_push_loop_options *options);

#endif
