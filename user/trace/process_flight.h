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
	XP_FLIGHT_GONE,	   /* the process ended, how is not known */
	XP_FLIGHT_END,	   /* the recording ended */
	XP_FLIGHT_TRIGGER, /* a call took longer than its trigger allows (triggers.h) */
};
const char *xp_flight_cause_name(enum xp_flight_cause cause);

/* The calls that a thread was in at the end of a log: the innermost ones. */
#define XP_FLIGHT_CALLS_MAX 4
struct xp_flight_thread {
	pid_t tid;
	unsigned int call_count;
	uint32_t calls[XP_FLIGHT_CALLS_MAX]; /* function ids, the innermost first */
};

/* The threads that were in a call; of a process that was killed, those that ended first. */
#define XP_FLIGHT_THREADS_MAX 4
struct xp_flight_threads {
	struct xp_flight_thread first[XP_FLIGHT_THREADS_MAX];
	size_t count; /* of all */
};

/*
 * The slowest call since the previous log that took longer than its trigger allows. The time without a CPU does not
 * count: other threads cause it, and xprof can.
 */
struct xp_flight_slow_call {
	uint64_t calls;		    /* of such calls in the log; 0: there is none */
	size_t trigger;		    /* index */
	struct xp_flight_thread in; /* the call and its callers */
	uint64_t begin_tsc;
	uint64_t end_tsc;
	uint64_t delay_ticks; /* in which the thread was runnable without a CPU, with --off-cpu */
};

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
	struct xp_flight_threads threads;
	struct xp_flight_slow_call slow;
};

struct xp_process_flights {
	struct xp_flight *memory;   /* the records since the last log */
	unsigned int begun;	    /* logs that were requested */
	struct xp_flight_log *logs; /* those that were written, or failed */
	size_t count, room;
	struct xp_flight_threads threads; /* for the next log */
	struct xp_flight_slow_call *slow; /* for the next log, which is to be written now; NULL: there is none */
};

/* Passes the flight recorders of all processes to the writer. Returns 0 or -ENOMEM. */
int xp_processes_write_flights(struct xp_processes *processes);
/* Like xp_processes_write_flights(), for processes with a call that took longer than its trigger allows. */
int xp_processes_write_triggered(struct xp_processes *processes);
/* Collects the finished logs; with `wait`, until the writer is idle. Calls `done` for each log. */
typedef void (*xp_flight_done)(void *arg, const struct xp_process *process, const struct xp_flight_log *log);
int xp_processes_collect_flights(struct xp_processes *processes, bool wait, xp_flight_done done, void *arg);

/* For process.c: stores a thread's chunk, instead of in a spool; disposes of the memory when the image has ended. */
int xp_process_keep_chunk(struct xp_process *process, struct xp_thread *thread);
/* A thread ends, perhaps with its process or with the recording: then the calls that it was in are noted. */
void xp_process_end_flight_thread(struct xp_process *process, const struct xp_thread *thread);
int xp_process_end_flight(struct xp_process *process);
/* A call of a watched function has ended: the log is to be written if it took too long. arg: the process. */
void xp_process_watched_end(void *arg, const struct xp_thread *thread, const struct xp_ended_call *call);
/* A thread runs again, after a wait (XP_EVENT_WAIT). Returns 0 or -ENOMEM. */
int xp_processes_note_wait(struct xp_processes *processes, const struct xp_arrival *arrival);
/* The image ends with the recording. */
int xp_process_finish_flight(struct xp_process *process);

#endif
