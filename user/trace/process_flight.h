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
	XP_FLIGHT_ASKED,   /* SIGUSR2 */
	XP_FLIGHT_KILLED,  /* a signal killed the process */
	XP_FLIGHT_GONE,	   /* the process exited for an unknown reason */
	XP_FLIGHT_END,	   /* the recording ended */
	XP_FLIGHT_TRIGGER, /* a call was slower than its trigger allows (triggers.h) */
};
const char *xp_flight_cause_name(enum xp_flight_cause cause);

/* The innermost open calls of a thread at the end of a log. */
#define XP_FLIGHT_CALLS_MAX 4
struct xp_flight_thread {
	pid_t tid;
	unsigned int call_count;
	uint32_t calls[XP_FLIGHT_CALLS_MAX]; /* function IDs, the innermost first */
};

/* Threads with open calls; after a fatal signal, those that ended first. */
#define XP_FLIGHT_THREADS_MAX 4
struct xp_flight_threads {
	struct xp_flight_thread first[XP_FLIGHT_THREADS_MAX];
	size_t count; /* number of all such threads */
};

/*
 * The slowest call since the previous log among those that exceeded their trigger. Does not count time without a CPU,
 * which other threads and xprof itself cause.
 */
struct xp_flight_slow_call {
	uint64_t calls;		    /* number of such calls in the log; 0: none */
	size_t trigger;		    /* index */
	struct xp_flight_thread in; /* the call and its callers */
	uint64_t begin_tsc;
	uint64_t end_tsc;
	uint64_t delay_ticks; /* time runnable without a CPU, with --off-cpu */
};

/* A log that was written, or failed (error). */
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
	struct xp_flight_threads threads;
	struct xp_flight_slow_call slow;
};

struct xp_process_flights {
	struct xp_flight *memory;   /* the records since the last log */
	unsigned int begun;	    /* logs that were requested */
	struct xp_flight_log *logs; /* those that were written, or failed */
	size_t count, room;
	struct xp_flight_threads threads; /* for the next log */
	struct xp_flight_slow_call *slow; /* slow call that requests the next log; NULL: none */
};

/* Passes the flight recorders of all processes to the writer. Returns 0 or -ENOMEM. */
int xp_processes_write_flights(struct xp_processes *processes);
/* Like xp_processes_write_flights(), for processes with a call that took longer than its trigger allows. */
int xp_processes_write_triggered(struct xp_processes *processes);
/* Collects finished logs, and with `wait` waits for the writer. Calls `done` for each log. */
typedef void (*xp_flight_done)(void *arg, const struct xp_process *process, const struct xp_flight_log *log);
int xp_processes_collect_flights(struct xp_processes *processes, bool wait, xp_flight_done done, void *arg);

/* For process.c: stores a thread's chunk, instead of in a spool; frees the memory if the image has ended. */
int xp_process_keep_chunk(struct xp_process *process, struct xp_thread *thread);
/* Call this when a thread exits, perhaps with its process or the recording: stores its open calls. */
void xp_process_end_flight_thread(struct xp_process *process, const struct xp_thread *thread);
int xp_process_end_flight(struct xp_process *process);
/* Called at the end of a watched call: requests a log if the call was too slow. arg: the process. */
void xp_process_watched_end(void *arg, const struct xp_thread *thread, const struct xp_ended_call *call);
/* Handles a wait that has ended (XP_EVENT_WAIT). Returns 0 or -ENOMEM. */
int xp_processes_note_wait(struct xp_processes *processes, const struct xp_arrival *arrival);
/* Call this when the image ends with the recording. */
int xp_process_finish_flight(struct xp_process *process);

#endif
