/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes logs of flight recorders in a separate thread, one after the other, so that the reader of the rings does not
 * wait for the disk.
 */
#ifndef XPROF_TRACE_FLIGHT_WRITER_H
#define XPROF_TRACE_FLIGHT_WRITER_H

#include <pthread.h>
#include <stdbool.h>

#include "trace/flight.h"

/* One log. The caller keeps everything that info points to, except final_name, until the job is collected. */
struct xp_flight_job {
	struct xp_flight_job *next;
	struct xp_flight *flight; /* freed when the log is written */
	struct xp_log_info info;
	char name[64]; /* name of the log */
	int error;     /* result of writing the log */
	struct xp_flight_result result;
};

struct xp_flight_writer {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int dir_fd; /* borrowed */
	xp_log_maker make_log;
	bool running;
	struct xp_flight_job *waiting;
	struct xp_flight_job **waiting_end;
	struct xp_flight_job *done;
};

void xp_flight_writer_init(struct xp_flight_writer *writer, int dir_fd, xp_log_maker make_log);
/* Takes ownership of the job, which is malloc'ed, until xp_flight_writer_collect() returns it. */
void xp_flight_writer_add(struct xp_flight_writer *writer, struct xp_flight_job *job);
/* Returns a finished job, or NULL. wait: waits for a job in progress. The caller frees the job and result.shares. */
struct xp_flight_job *xp_flight_writer_collect(struct xp_flight_writer *writer, bool wait);

#endif
