/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The traced processes and their threads: assigns each record to a thread and to a log. A process that executes a new
 * program becomes a new struct xp_process (an image): its functions have other IDs, and it has another log.
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

/* How the recording attaches to a process; for the caller. */
struct xp_process_attaching {
	uint64_t looked_tsc;  /* when the last scan for its sleds began */
	uint32_t execs;	      /* struct xp_event_task.execs when this image was first scanned */
	unsigned int flees;   /* consecutive execs while its sleds were being attached */
	unsigned int in_vain; /* the same, including execs soon after its sleds were patched */
	pid_t inherits_from;  /* ancestor whose stub its patched sleds call; 0: they call its own */
	pid_t parent;	      /* parent that forked it; 0: unknown */
	unsigned int sharers; /* number of other processes with the same memory: vfork(), CLONE_VM */
	bool denied;	      /* not recorded because a capability is missing, or because it has forged stubs */
	bool left_out;	    /* an object is not recorded because its cgroup lacks memory, or a budget cannot be kept */
	bool has_no_tsc;    /* some of its threads cannot have a call ring */
	bool killed_by_tsc; /* the stub's rdtsc has killed one of its threads */
	/* xp_follow_check() found that it has exited, although no event has reported that. */
	bool missing;
	int stops_when_loaded; /* number of calls of _dl_debug_state() after which all its objects are loaded; 0: static
				*/
	/* Why its sleds are not patched, or their calls not recorded in memory; NULL: no reason. */
	char *probed_why;
	char *patched_why;
};

/* CPU time, as the budget reads it. */
struct xp_process_cpu {
	uint64_t used_ns; /* at the last reading; 0: unknown */
	double running;	  /* average number of running threads since the previous reading */
};

/* State of reading its call rings. */
struct xp_ring_reading {
	uint32_t next;	    /* index of the next ring to read, modulo their number */
	uint64_t since_tsc; /* since then: */
	uint64_t ticks;	    /* time that reading took */
	uint64_t calls;	    /* calls that were read */
	uint64_t frames;    /* frames that were searched for them */
	/* struct xp_processes.tasks_lost at the last check, the low 32 bits */
	uint32_t tasks_lost;
	uint32_t told_us; /* time spent on ring requests of threads */
	/* In the current turn: */
	uint64_t work;	    /* frames that were searched */
	uint64_t until_tsc; /* end of the turn; 0: when all calls have been read */
};

/* The further stacks of its threads (thread_stacks.h), and its goroutines. */
struct xp_process_stacks {
	uint32_t count;	 /* number of both, at most XP_STACKS_MAX */
	uint32_t frames; /* capacity for frames of all goroutines */
	uint64_t ticks;	 /* time spent on its mappings */
};

/* Its goroutines (goroutines.h). */
struct xp_goroutines {
	struct xp_u64_map by_address; /* by the address of struct g */
	size_t hand;		      /* where the search for an idle goroutine continues */
};

/* Calls of patched sleds that were recorded by the uprobe because there was no call ring, or no space in it. */
struct xp_fallen_calls {
	uint64_t no_ring;
	uint64_t full;
};

struct xp_process {
	struct xp_process *next;
	struct xp_process *next_live;	/* stays set when this image ends: a loop may end the image that it visits */
	struct xp_process **live_place; /* the pointer to this image in the list of live images */
	struct xp_processes *all;

	pid_t pid;
	unsigned int image; /* 1, plus one at each exec */
	char comm[16];
	char *exe;	     /* as in struct xp_target_info */
	uint64_t start_time; /* xp_target_info */
	uint64_t begin_tsc;

	bool live;     /* this image still runs */
	bool vanished; /* the process exited, and no event reported how */
	int signal;    /* signal that killed it; 0: none */

	struct xp_functions functions;
	struct xp_thread_options thread_options;
	struct xp_thread_sums sums;
	struct xp_process_log log;
	struct xp_process_flights flights; /* with --flight */
	struct xp_process_attaching attaching;
	struct xp_process_cpu cpu;
	struct xp_call_account account;
	struct xp_call_rings *rings; /* call rings of its patched sleds; NULL: none, see process_rings.h */
	struct xp_ring_reading reading;
	struct xp_fallen_calls fallen;
	struct xp_process_stacks stacks;
	struct xp_goroutines goroutines;
};

/* Numbers of function records through the kernel, by their cost for the target. */
struct xp_hits {
	uint64_t emulated; /* probed entries and tail exits */
	uint64_t stepped;  /* probed exits */
	uint64_t stub;	   /* uprobe on the stub, of any sled, except: */
	uint64_t child;	   /* in forked children */
	uint64_t args;	   /* entries with arguments, in any process */
};

struct xp_processes {
	struct xp_process *first; /* in order of appearance */
	struct xp_process **last;
	struct xp_process
	    *first_live; /* live images in the same order: most images have exited, which a scan need not visit */
	struct xp_process **last_live;
	struct xp_u64_map newest;  /* by PID: the last image, live or not */
	struct xp_u64_map threads; /* by TID: live threads, further stacks, and goroutines */

	/* Set by the caller before the first process. */
	const struct xp_clock *clock;
	int dir_fd;
	xp_log_maker make_log;
	unsigned int fdr_version; /* the requested version */
	uint64_t start_tsc;
	/*
	 * TSC frequency in all logs. clock->hz becomes more exact during the recording, but all logs must have the same
	 * frequency, because their calls are compared. 0: use clock->hz when the first log begins.
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
	struct xp_triggers triggers; /* owned after xp_processes_init(); only with flight_bytes */
	uint64_t next_serial;	     /* serial of the next thread */
	uint32_t next_stack;	     /* XP_STACK_TID plus this is the next thread ID of a stack */
	uint64_t ended_cpu_ns;	     /* CPU time of exited processes since the budget's last reading */
	struct xp_call_accounts accounts;

	struct xp_hits hits; /* hits so far */

	struct xp_thread *recent[256]; /* by CPU: thread of the last record */
};

/* Call this after setting the members above. */
void xp_processes_init(struct xp_processes *processes);
void xp_processes_free(struct xp_processes *processes);

/*
 * Begins a new part at this time, in this directory. Removes exited processes. Returns 0, or errors of xp_thread_put().
 */
int xp_processes_begin_part(struct xp_processes *processes, int dir_fd, uint64_t tsc);
/* Call this in a child process of fork(2): later records belong to the parent. */
void xp_processes_forked(struct xp_processes *processes);

/* Returns the live image of pid; NULL: unknown. */
struct xp_process *xp_processes_find(struct xp_processes *processes, pid_t pid);
/* Adds an image, and ends the previous image of the same pid. Returns 0 or -ENOMEM. */
int xp_processes_add(struct xp_processes *processes, struct xp_process **process, pid_t pid,
		     const struct xp_target_info *info, uint64_t tsc);
/* Corrects the program or the start time of the process, before it has any object. Returns 0 or -ENOMEM. */
int xp_process_rename(struct xp_process *process, const struct xp_target_info *info, uint64_t tsc);

/*
 * Handles a call or event of the program that came through the kernel, after the earlier calls of its thread in memory.
 * Returns -ENOENT if the process or function is unknown (the caller counts the event as filtered). After other errors,
 * those of the spool or -ENOMEM, the event has been counted here.
 */
int xp_processes_record(struct xp_processes *processes, const struct xp_arrival *arrival);
/* Adds a goroutine. Returns 0, -ENOBUFS beyond XP_STACKS_MAX, or -ENOMEM. */
int xp_process_add_goroutine(struct xp_process *process, struct xp_thread **goroutine);
/* Finds or adds the thread of a known process. Returns 0, -ENOENT or -ENOMEM. */
int xp_processes_thread(struct xp_processes *processes, pid_t pid, pid_t tid, struct xp_thread **thread);

/*
 * Adds a call of the thread to its log, from the kernel or from a call ring. Returns 0, 1 if the process has no such
 * function (the caller counts the call), or the errors of xp_thread_put().
 */
int xp_thread_take(struct xp_thread *thread, const struct xp_call *call);

/* Counts an entry for the budget; an entry from the process's own memory only if its account can pay for it. */
static inline void xp_process_count_entry(struct xp_process *process, struct xp_function_budget *budget, bool in_memory)
{
	if (!in_memory)
		budget->calls[process->attaching.inherits_from ? XP_CALLS_CHILD : XP_CALLS_STUB]++;
	else if (xp_call_account_draw(&process->all->accounts, &process->account, budget->memory_ns))
		budget->calls[XP_CALLS_MEMORY]++;
}

/* Call this when the process has exited. cpu: its total CPU time. */
void xp_process_ran(struct xp_process *process, uint64_t cpu_ns);
/* Call this when the function has lost its probes: its open calls will have no exit. */
void xp_processes_forget(struct xp_processes *processes, const struct xp_object *object, uint32_t function_id);
/* Ends a thread. */
int xp_processes_end_thread(struct xp_processes *processes, pid_t tid);
/*
 * Call this when the image has ended. Writes its threads' chunks to its spool, and the spool to the disk. Makes a small
 * log immediately.
 */
int xp_process_end(struct xp_process *process);
/* Stores the chunks of all threads, frees them, and writes the spools to disk. A crash loses only later records. */
int xp_processes_flush(struct xp_processes *processes);

/*
 * Ends the process if it is still live, and makes its files. Returns 0 or the first error, which is kept in
 * process->log.error.
 */
int xp_process_finish(struct xp_process *process);

#endif
