/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorders of the traced processes (--flight): see flight.h. */
#ifndef XPROF_TRACE_PROCESS_FLIGHT_H
#define XPROF_TRACE_PROCESS_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/flight.h"
#include "trace/thread.h"

struct xp_process;
struct xp_processes;

/* Why a log was written. */
enum xp_flight_cause {
	XP_FLIGHT_ASKED,  /* SIGUSR2 */
	XP_FLIGHT_KILLED, /* a signal killed the process */
	XP_FLIGHT_GONE,	  /* the process ended, how is not known */
	XP_FLIGHT_END,	  /* the recording ended */
};
const char *xp_flight_cause_name(enum xp_flight_cause cause);

/* A log that was written, or failed: see error. */
struct xp_flight_log {
	char name[64];
	enum xp_flight_cause cause;
	int signal; /* KILLED: the signal */
	int error;
	uint64_t at_tsc; /* time of the request */
	uint64_t first_tsc;
	uint64_t bytes;
	unsigned int version;
	uint64_t records;
	uint64_t entries; /* see struct xp_flight_result */
	uint64_t exits;
};

struct xp_process_flights {
	struct xp_flight *memory;   /* the records since the last log */
	unsigned int begun;	    /* logs that were asked for */
	struct xp_flight_log *logs; /* those that were written, or failed */
	size_t count;
};

/* Passes the flight recorders of all processes to the writer. Returns 0 or -ENOMEM. */
int xp_processes_write_flights(struct xp_processes *processes);
/* Collects the finished logs; with `wait`, until the writer is idle. Calls `done` for each log. */
typedef void (*xp_flight_done)(void *arg, const struct xp_process *process, const struct xp_flight_log *log);
int xp_processes_collect_flights(struct xp_processes *processes, bool wait, xp_flight_done done, void *arg);

/* For process.c: stores a thread's chunk, instead of in a spool; disposes of the memory when the image has ended. */
int xp_process_keep_chunk(struct xp_process *process, struct xp_thread *thread);
int xp_process_end_flight(struct xp_process *process);
/* The image ends with the recording. */
int xp_process_finish_flight(struct xp_process *process);

#endif
