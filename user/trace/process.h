/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The traced processes and their threads: which record belongs to whom, and where it goes. A process that executes a
 * new program becomes a new struct xp_process (an image): its functions have other ids, its log is another file.
 */
#ifndef XPROF_PROCESS_H
#define XPROF_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "sled/object.h"
#include "sled/sleds.h"
#include "trace/spool.h"
#include "target/target.h"
#include "trace/thread.h"

/* An instrumented object in a process, and its function ids in the process's log. */
struct xp_range {
	struct xp_object *object;
	uint32_t fdr_base; /* function id i of the object is fdr_base + i in the log: the executable has 0 */
	struct xp_sled_result sleds;
	size_t overwritten; /* sleds that XRay's runtime patched during the recording */
};

/* A thread that is over, or not, for the manifest. */
struct xp_thread_summary {
	pid_t tid;
	uint64_t serial;
	char name[16];
	struct xp_counts counts;
};
#define XP_THREAD_SUMMARIES_MAX 1000

struct xp_process {
	struct xp_process *next;
	struct xp_process *next_in_slot; /* of another pid, see struct xp_processes */
	struct xp_process *next_live;	 /* stays when this image ends: a walk may end the one it has come to */
	struct xp_process **live_place;	 /* what points to it among the live ones */
	struct xp_processes *all;
	pid_t pid;
	unsigned int image; /* 1, and one more at each exec */
	char comm[16];
	char *exe;	     /* as struct xp_target_info has it */
	uint64_t start_time; /* xp_target_info */
	uint64_t begin_tsc;
	uint64_t cpu_ns;       /* its CPU time when the budget last looked; 0: not known */
	double running;	       /* threads that ran then, on average since the look before */
	bool live;	       /* this image still runs */
	uint64_t looked_tsc;   /* when the last look for its sleds began */
	uint32_t execs;	       /* as struct xp_rec_task counts them, when this image was first looked at */
	bool denied;	       /* its sleds are left alone for lack of a capability */
	unsigned int flees;    /* times that it executed another program while its sleds were attached, in a row */
	unsigned int in_vain;  /* the same, or soon after they were patched */
	bool missing;	       /* it did not when xp_follow_check() looked, though no record has told of its end */
	char probed_why[160];  /* its sleds are not patched because ...; "" when they are, or were not to be */
	bool has_typed;	       /* typed event sleds, which llvm-xray's reader of instrumentation maps refuses */
	int stops_when_loaded; /* calls of _dl_debug_state() after which all its objects are loaded; 0: static */
	struct xp_thread_options thread_options;

	const struct xp_object *main_object; /* the executable, when it is instrumented */
	struct xp_range *ranges;
	size_t range_count;
	uint32_t function_count;

	struct xp_spool *spool;	  /* opened with the first chunk, until the log is made of it */
	struct xp_flight *flight; /* in its place, with --flight */
	unsigned int flights_begun;
	struct xp_flight_log *flights; /* logs written of it, see process_flight.h */
	size_t flight_count;
	int signal;			      /* that killed it; 0: none */
	bool vanished;			      /* it ended, and no record has told how */
	char log_name[XP_SPOOL_NAME_MAX + 1]; /* of the finished log; "" before */
	uint64_t log_bytes;		      /* its size, holes included */
	unsigned int log_version;
	char side_name[64]; /* of the side ELF; "" when none is needed */
	int error;	    /* of the spool or the files: something of the log is missing */

	struct xp_counts counts; /* of threads that are over; of all after xp_process_finish() */
	uint64_t clamped;
	uint64_t ended_tsc;    /* of the last record of a thread that is over: its number may be given again */
	uint32_t *synthesized; /* exits per function id; NULL before the first */
	uint32_t synthesized_room;
	uint32_t thread_count;
	struct xp_thread_summary *summaries;
	size_t summary_count;
};

struct xp_processes {
	struct xp_process *first; /* in the order of their appearance */
	struct xp_process **last;
	struct xp_process *first_live; /* those that still run, in the same order: at each look, most are over */
	struct xp_process **last_live;
	struct xp_process **newest; /* hash by pid: the last image of each, live or not */
	size_t pid_room;
	size_t pid_count;
	struct xp_thread **threads; /* hash by tid, live ones */
	size_t thread_room;
	size_t thread_count;

	/* Set by the caller before the first process. */
	const struct xp_clock *clock;
	int dir_fd;
	unsigned int fdr_version; /* wanted */
	uint64_t start_tsc;
	uint64_t min_ticks; /* --min-duration */
	uint64_t stop_tsc;  /* the recording's end: what comes later is filtered; UINT64_MAX while it runs */
	/* --flight: bytes of each process's memory in place of a spool, and who makes logs of it. Both 0 without. */
	uint64_t flight_bytes;
	struct xp_flight_writer *writer;
	uint64_t next_serial;  /* of threads */
	uint64_t ended_cpu_ns; /* that processes have run since the budget looked at them, and until they ended */

	struct xp_thread *recent[256]; /* by CPU: the thread of its last record */
};

/* -ENOMEM. The members for the caller to set are set already. */
int xp_processes_init(struct xp_processes *processes);
void xp_processes_free(struct xp_processes *processes);

/* The image of pid that runs now; NULL when it is not known. */
struct xp_process *xp_processes_find(struct xp_processes *processes, pid_t pid);
/* A new image; the one before it of the same pid is ended. -ENOMEM. */
int xp_processes_add(struct xp_processes *processes, struct xp_process **process, pid_t pid,
		     const struct xp_target_info *info, uint64_t tsc);
/* It is found to run another program, or since another time, than was thought: before it has any object. -ENOMEM. */
int xp_process_rename(struct xp_process *process, const struct xp_target_info *info, uint64_t tsc);
/* Gives the process an object that it did not have; 1 when it has it already, -ENOSPC when ids run out. */
int xp_process_add_object(struct xp_process *process, struct xp_object *object, const struct xp_sled_result *sleds);
/* A forked child's copy of its parent's objects. */
int xp_process_copy_objects(struct xp_process *process, const struct xp_process *parent);

/*
 * A function record or an event. -ENOENT: the process is not known, or has no such function (the caller counts it as
 * filtered); other errors are those of the spool or -ENOMEM, and the record is accounted for.
 */
int xp_processes_record(struct xp_processes *processes, const struct xp_rec *rec, uint16_t cpu, uint64_t tsc);
/* The process ends, and has taken so much CPU time in all. */
void xp_process_ran(struct xp_process *process, uint64_t cpu_ns);
/* This function has no probes any more: calls of it that are open will have no exit. */
void xp_processes_forget(struct xp_processes *processes, const struct xp_object *object, uint32_t function_id);
/* A thread is over. */
int xp_processes_end_thread(struct xp_processes *processes, pid_t tid);
/* The image is over: its threads' chunks go to its spool, which is written, and a small log is made of it at once. */
int xp_process_end(struct xp_process *process);
/* Gives the memory of all threads' chunks back, and writes what their spools hold: what a crash loses is newer. */
int xp_processes_flush(struct xp_processes *processes);

/* Ends the process if it still lives and makes its files. 0 or the first error, which is kept in process->error. */
int xp_process_finish(struct xp_process *process);

#endif
