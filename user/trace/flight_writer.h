/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes logs of flight recorders in a thread of its own, one after the other, so that the reader of the rings does not
 * wait for the disk.
 */
#ifndef XPROF_FLIGHT_WRITER_H
#define XPROF_FLIGHT_WRITER_H

#include <pthread.h>
#include <stdbool.h>

#include "trace/flight.h"

/* One log. The pointers of info stay the caller's until the job is collected, but for final_name. */
struct xp_flight_job {
	struct xp_flight_job *next;
	struct xp_flight *flight; /* freed when it is written */
	struct xp_spool_info info;
	char name[64]; /* of the log */
	void *arg;     /* the caller's */
	int error;     /* of the writing */
	struct xp_flight_result result;
};

struct xp_flight_writer {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int dir_fd; /* borrowed */
	bool running;
	struct xp_flight_job *waiting;
	struct xp_flight_job **waiting_end;
	struct xp_flight_job *done;
};

void xp_flight_writer_init(struct xp_flight_writer *writer, int dir_fd);
/* Takes the job, which is malloc'ed, until xp_flight_writer_collect() gives it back. */
void xp_flight_writer_add(struct xp_flight_writer *writer, struct xp_flight_job *job);
/* A job that is done. NULL: none; with wait, none is under way either. The caller frees it and result.shares. */
struct xp_flight_job *xp_flight_writer_collect(struct xp_flight_writer *writer, bool wait);

#endif
