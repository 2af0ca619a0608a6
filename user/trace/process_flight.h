/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorders of the traced processes (--flight): see flight.h. */
#ifndef XPROF_PROCESS_FLIGHT_H
#define XPROF_PROCESS_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/process.h"

/* Why a log was written. */
enum xp_flight_cause {
	XP_FLIGHT_ASKED,  /* SIGUSR2 */
	XP_FLIGHT_KILLED, /* the process, by a signal */
	XP_FLIGHT_GONE,	  /* the process, nobody knows how */
	XP_FLIGHT_END,	  /* of the recording */
};
const char *xp_flight_cause_name(enum xp_flight_cause cause);

/* A log that is written, or not: error. */
struct xp_flight_log {
	char name[64];
	enum xp_flight_cause cause;
	int signal; /* KILLED: which */
	int error;
	uint64_t at_tsc; /* when it was asked for */
	uint64_t first_tsc;
	uint64_t bytes;
	unsigned int version;
	uint64_t records;
	uint64_t entries; /* see struct xp_flight_result */
	uint64_t exits;
};

/* Hands what is kept of all processes to the writer. -ENOMEM. */
int xp_processes_write_flights(struct xp_processes *processes);
/* Takes back what the writer has done; wait: until it has nothing to do. done is called for each log. */
typedef void (*xp_flight_done)(void *arg, const struct xp_process *process, const struct xp_flight_log *log);
int xp_processes_collect_flights(struct xp_processes *processes, bool wait, xp_flight_done done, void *arg);

/* For process.c: a thread's chunk, instead of a spool's; what becomes of the memory when the image is over. */
int xp_process_keep_chunk(struct xp_process *process, struct xp_thread *thread);
int xp_process_end_flight(struct xp_process *process);
/* The image ends with the recording. */
int xp_process_finish_flight(struct xp_process *process);

#endif
