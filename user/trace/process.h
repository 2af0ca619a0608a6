/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The traced processes and their threads: assigns each record to a thread and to a log. A process that executes a new
 * program becomes a new struct xp_process (an image): its functions have other ids, and its log is another file.
 */
#ifndef XPROF_TRACE_PROCESS_H
#define XPROF_TRACE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/u64_map.h"
#include "event/call.h"
#include "target/target.h"
#include "trace/call_account.h"
#include "trace/functions.h"
#include "trace/process_flight.h"
#include "trace/process_log.h"
#include "trace/thread.h"
#include "trace/thread_sums.h"
#include "trace/triggers.h"

/* How the recording attaches to a process. For the caller, which follows its execs. */
struct xp_process_attaching {
	uint64_t looked_tsc;  /* when the last scan for its sleds began */
	uint32_t execs;	      /* struct xp_event_task.execs when this image was first scanned */
	unsigned int flees;   /* consecutive execs while its sleds were being attached */
	unsigned int in_vain; /* the same, or soon after its sleds were patched */
	pid_t inherits_from;  /* its patched sleds lead to a stub of this one, of which it descends; 0: to its own */
	pid_t parent;	      /* it was forked by this one; 0: that was not seen */
	unsigned int sharers; /* other processes that run in its memory: vfork(), CLONE_VM */
	bool denied;	      /* its sleds are skipped for lack of a capability, or because it has forged stubs */
	bool left_out;	      /* the same, of an object: its cgroup lacks memory, or a budget cannot be kept */
	bool has_no_tsc;      /* some of its threads cannot have a call ring */
	bool killed_by_tsc;   /* the stub's rdtsc has killed one of its threads */
	/* xp_follow_check() found that it no longer runs, though no record has reported its end. */
	bool missing;
	int stops_when_loaded; /* calls of _dl_debug_state() after which all its objects are loaded; 0: static */
	/* Why its sleds are not patched, or their calls not recorded in memory; NULL: they are, or were not to be. */
	char *probed_why;
	char *patched_why;
};

/* CPU time, as the budget reads it. */
struct xp_process_cpu {
	uint64_t used_ns; /* at the last reading; 0: not known */
	double running;	  /* average number of running threads since the previous reading */
};

/* How its call rings are read. */
struct xp_ring_reading {
	uint32_t next;	    /* the ring whose turn it is, modulo their number */
	uint64_t since_tsc; /* since then: */
	uint64_t ticks;	    /* time that reading took */
	uint64_t calls;	    /* calls that were read */
	uint64_t frames;    /* frames that were looked at for them */
	/* As in struct xp_processes, when it was last looked at, the low 32 bits. */
	uint32_t tasks_lost;
	uint32_t told_us; /* time spent on ring requests of threads that were reported, not created */
	/* In this turn: */
	uint64_t work;	    /* frames that were looked at */
	uint64_t until_tsc; /* when it ends; 0: when all calls are taken */
};

/* The further stacks of its threads (thread_stacks.h), and its goroutines. */
struct xp_process_stacks {
	uint32_t count;	 /* of both, at most XP_STACKS_MAX */
	uint32_t frames; /* room for frames of all goroutines */
	uint64_t ticks;	 /* time that its mappings took */
};

/* Its goroutines (goroutines.h). */
struct xp_goroutines {
	struct xp_u64_map by_address; /* of struct g */
	size_t hand;		      /* where to look next for one without open calls */
};

/* Calls that patched sleds recorded by their uprobe because there was no call ring, or no space in it. */
struct xp_fallen_calls {
	uint64_t no_ring;
	uint64_t full;
};

struct xp_process {
	struct xp_process *next;
	struct xp_process *next_live;	/* kept when this image ends: a walk may end the image that it is at */
	struct xp_process **live_place; /* the pointer to this one in the list of live images */
	struct xp_processes *all;

	pid_t pid;
	unsigned int image; /* 1, plus one at each exec */
	char comm[16];
	char *exe;	     /* as in struct xp_target_info */
	uint64_t start_time; /* xp_target_info */
	uint64_t begin_tsc;

	bool live;     /* this image still runs */
	bool vanished; /* it ended, and no record reported how */
	int signal;    /* signal that killed it; 0: none */

	struct xp_functions functions;
	struct xp_thread_options thread_options;
	struct xp_thread_sums sums;
	struct xp_process_log log;
	struct xp_process_flights flights; /* with --flight */
	struct xp_process_attaching attaching;
	struct xp_process_cpu cpu;
	struct xp_call_account account;
	struct xp_call_rings
	    *rings; /* calls that its patched sleds record in memory; NULL: none, see process_rings.h */
	struct xp_ring_reading reading;
	struct xp_fallen_calls fallen;
	struct xp_process_stacks stacks;
	struct xp_goroutines goroutines;
};

/* Function records that came through the kernel, by what the hit cost the target. */
struct xp_hits {
	uint64_t emulated; /* probed entries and tail exits */
	uint64_t stepped;  /* probed exits */
	uint64_t stub;	   /* the stub's uprobe of any sled, except: */
	uint64_t child;	   /* the same in children of fork() */
	uint64_t args;	   /* the same for entries with arguments, in any process */
};

struct xp_processes {
	struct xp_process *first; /* in order of appearance */
	struct xp_process **last;
	struct xp_process *first_live; /* those that still run, in the same order: at each scan, most have ended */
	struct xp_process **last_live;
	struct xp_u64_map newest;  /* by pid: the last image of each, live or not */
	struct xp_u64_map threads; /* by tid, live ones, their further stacks, and goroutines */

	/* Set by the caller before the first process. */
	const struct xp_clock *clock;
	int dir_fd;
	xp_log_maker make_log;
	unsigned int fdr_version; /* the requested version */
	uint64_t start_tsc;
	/*
	 * The frequency of all logs. clock->hz improves during the recording, and logs are begun at different times;
	 * their calls are compared. 0: as clock->hz is when the first log begins.
	 */
	uint64_t cycle_hz;
	uint64_t min_ticks; /* --min-duration */
	/* The number of lost records of thread creations and exits so far; NULL: unknown. */
	const uint64_t *tasks_lost;
	/*
	 * Begin and end of the recording: earlier and later records are filtered. begin_tsc: 0 if a command is
	 * recorded from its first instruction on. stop_tsc: UINT64_MAX while the recording runs.
	 */
	uint64_t begin_tsc;
	uint64_t stop_tsc;
	/* --flight: bytes of memory per process, instead of a spool, and the writer of its logs. Both 0 otherwise. */
	uint64_t flight_bytes;
	struct xp_flight_writer *writer;
	struct xp_triggers triggers; /* owned from xp_processes_init() on; with flight_bytes only */
	uint64_t next_serial;	     /* serial of the next thread */
	uint32_t next_stack;	     /* its thread ID is XP_STACK_TID plus this */
	uint64_t ended_cpu_ns;	     /* CPU time of ended processes, from the budget's last reading to their end */
	struct xp_call_accounts accounts;

	struct xp_hits hits; /* so far */

	struct xp_thread *recent[256]; /* by CPU: the thread of its last record */
};

/* Call it after setting the members above. */
void xp_processes_init(struct xp_processes *processes);
void xp_processes_free(struct xp_processes *processes);

/*
 * A new part of the recording begins at this time, in this directory, which has all events from then on. Processes that
 * have ended are forgotten. Returns 0, or the errors of xp_thread_put().
 */
int xp_processes_begin_part(struct xp_processes *processes, int dir_fd, uint64_t tsc);
/* In a child process that fork(2) made: what the processes record from now on belongs to the parent. */
void xp_processes_forked(struct xp_processes *processes);

/* The running image of pid; NULL if it is not known. */
struct xp_process *xp_processes_find(struct xp_processes *processes, pid_t pid);
/* Adds an image, and ends the previous image of the same pid. Returns 0 or -ENOMEM. */
int xp_processes_add(struct xp_processes *processes, struct xp_process **process, pid_t pid,
		     const struct xp_target_info *info, uint64_t tsc);
/* Corrects the program or the start time of the process, before it has any object. Returns 0 or -ENOMEM. */
int xp_process_rename(struct xp_process *process, const struct xp_target_info *info, uint64_t tsc);

/*
 * Takes a call, or an event of the program, that came through the kernel, after those that its thread recorded in
 * memory before. Returns -ENOENT if the process is not known or has no such function (the caller counts the event as
 * filtered). For other errors, those of the spool or -ENOMEM, the event is accounted for here.
 */
int xp_processes_record(struct xp_processes *processes, const struct xp_arrival *arrival);
/* Adds a goroutine. Returns 0, -ENOBUFS beyond XP_STACKS_MAX, or -ENOMEM. */
int xp_process_add_goroutine(struct xp_process *process, struct xp_thread **goroutine);
/* The thread of a process that is known, added if need be. Returns 0, -ENOENT or -ENOMEM. */
int xp_processes_thread(struct xp_processes *processes, pid_t pid, pid_t tid, struct xp_thread **thread);

/*
 * Adds a call of the thread to its log, from the kernel or from a call ring. Returns 0, 1 if the process has no such
 * function (the caller counts the call), or the errors of xp_thread_put().
 */
int xp_thread_take(struct xp_thread *thread, const struct xp_call *call);

/*
 * Counts an entry for the budget. An entry from the memory of a process counts only if the account of the process can
 * pay for it.
 */
static inline void xp_process_count_entry(struct xp_process *process, struct xp_function_budget *budget, bool in_memory)
{
	if (!in_memory)
		budget->calls[process->attaching.inherits_from ? XP_CALLS_CHILD : XP_CALLS_STUB]++;
	else if (xp_call_account_draw(&process->all->accounts, &process->account, budget->memory_ns))
		budget->calls[XP_CALLS_MEMORY]++;
}

/* The process ends, and has taken this much CPU time in total. */
void xp_process_ran(struct xp_process *process, uint64_t cpu_ns);
/* This function no longer has probes: its open calls will not have an exit. */
void xp_processes_forget(struct xp_processes *processes, const struct xp_object *object, uint32_t function_id);
/* A thread has ended. */
int xp_processes_end_thread(struct xp_processes *processes, pid_t tid);
/*
 * Call this when the image has ended. Writes its threads' chunks to its spool, and the spool to the disk. Makes a small
 * log immediately.
 */
int xp_process_end(struct xp_process *process);
/*
 * Stores the chunks of all threads, which frees their memory, and writes out their spools. A crash loses only later
 * records.
 */
int xp_processes_flush(struct xp_processes *processes);

/*
 * Ends the process if it is still live, and makes its files. Returns 0 or the first error, which is kept in
 * process->log.error.
 */
int xp_process_finish(struct xp_process *process);

#endif
