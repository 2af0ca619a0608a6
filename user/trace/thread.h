/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One traced thread: its records become FDR chunks.
 *
 * A shadow stack makes the log acceptable to every reader of llvm-xray, which rejects an exit without an entry, and
 * exits out of order. An exit whose call began before the recording (or whose entry was lost) is dropped and counted.
 * If an exit matches a frame deeper in the stack, or a call starts at a stack slot of a frame on the shadow stack, a
 * throw or a longjmp abandoned the inner frames (or their exits were lost): exits with the same TSC are synthesized for
 * them, and counted. Calls that are open at the end stay open.
 *
 * The slot of the return address identifies a call, because two live calls cannot share it. A call is matched by
 * equality only. Order and distance of slots are used only to avoid mistaking callers and other stacks for abandoned
 * frames. A thread on several stacks has a shadow stack and chunks for each stack (thread_stacks.h). The search for a
 * call is bounded, because a process can forge records that match nothing.
 */
#ifndef XPROF_TRACE_THREAD_H
#define XPROF_TRACE_THREAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "event/call.h"
#include "format/fdr.h"

/* Why a record that was seen is not in the log. */
enum xp_filter {
	XP_FILTER_UNMATCHED_EXIT, /* the call began before the recording, or its entry was lost */
	XP_FILTER_MIN_DURATION,	  /* entry and exit of a call shorter than --min-duration */
	XP_FILTER_TOO_DEEP,	  /* more than XP_FRAMES_MAX calls deep */
	XP_FILTER_OUTSIDE,	  /* while the sleds were being attached or detached */
	XP_FILTERS,
};
const char *xp_filter_name(enum xp_filter filter);

/* seen = written + sum of filtered + unstored + overwritten, always. */
struct xp_counts {
	uint64_t seen;
	uint64_t written;
	uint64_t filtered[XP_FILTERS];
	uint64_t unstored;    /* could not be written to disk: lost */
	uint64_t overwritten; /* --flight: evicted by newer ones, or still in memory */
	uint64_t synthesized; /* exits in the log without a record */
	uint64_t carried;     /* the same for entries: of calls that began before this part of a recording */
	uint64_t in_memory;   /* number of seen records that came from call rings, see sled/call_ring.h */
};
void xp_counts_add(struct xp_counts *sum, const struct xp_counts *counts);
/* Counts records that are filtered. */
void xp_counts_filter(struct xp_counts *counts, enum xp_filter filter, uint64_t records);
uint64_t xp_counts_filtered(const struct xp_counts *counts);

/* 16 bytes per frame and thread, 48 with --min-duration: bounds how much memory a target can make xprof allocate. */
#define XP_FRAMES_MAX (256u << 10)
#define XP_CHUNK_BYTES (16u << 10)
/*
 * First chunk of a goroutine or further stack (thread_stacks.h). The next has XP_CHUNK_BYTES if a record did not fit.
 */
#define XP_STACK_CHUNK_BYTES (1u << 10)

/* A call at most this many slots below another one is on the same stack. */
#define XP_STACK_NEAR 256u
/* Slots of 8 MiB, the usual size of a stack. */
#define XP_STACK_SLOTS (1u << 20)

#define XP_FRAME_FORGOTTEN (1u << 31) /* flag in fn_id, which has 28 bits */

struct xp_open_call {
	uint32_t fn_id;
	uint32_t slot; /* slot of the entry: xp_call.slot */
	uint64_t tsc;  /* likewise */
};

/* State of the encoder for --min-duration, to discard an entry. */
struct xp_open_call_mark {
	struct xp_fdr_mark before; /* the encoder before the entry */
	size_t end;		   /* length after the entry; unchanged if nothing was written since */
	uint64_t chunk;		   /* the chunk that holds the entry */
};

/* State of the search for the frame of a call. */
struct xp_frame_search {
	uint64_t frames; /* number of visited frames */
	uint64_t seen;	 /* number of seen records at the last search */
	uint32_t saved;	 /* frames that it may visit in addition to the minimum */
};

struct xp_thread;
struct xp_stack_place;
struct xp_process;

/* Further stacks of a thread (thread_stacks.h); all zero: none so far. */
struct xp_stacks {
	struct xp_stack_place *places; /* all stacks, including the first, sorted by their outermost calls */
	size_t count;		       /* 0: there is only the first stack */
	size_t room;
	size_t hand;	 /* where the search for an unused stack continues */
	uint32_t frames; /* capacity for frames of all further stacks */
};
struct xp_watched;
struct xp_delays;

/* An open call of a watched function. */
struct xp_watched_call {
	uint64_t tsc; /* TSC of its entry */
	uint32_t frame;
};

/* A watched call that has ended. */
struct xp_ended_call {
	uint32_t fn_id;
	uint32_t frame; /* the frames from thread->frames[0] to this one are its callers and the call itself */
	uint64_t begin_tsc;
	uint64_t end_tsc;
};

/*
 * Receives chunks. An error means that the chunk was not stored. XP_CHUNK_KEPT: the chunk is in memory, and whether its
 * records reach a log is decided later.
 */
#define XP_CHUNK_KEPT 1
typedef int (*xp_chunk_sink)(void *arg, struct xp_thread *thread);

/* Slots of a mapping, modulo 2^32. */
struct xp_stack_range {
	uint32_t first;
	uint32_t count;
	bool is_stack; /* the slots belong to one stack, that of a thread */
};

struct xp_thread_options {
	uint64_t min_ticks; /* discard shorter calls; 0: keep all */
	xp_chunk_sink sink;
	void *arg;
	/* Called for each synthesized exit, for the counts by function; NULL: none. */
	void (*synthesized)(void *arg, uint32_t fn_id);
	/* The functions for whose calls watched_end() is called (functions.h); NULL: none. */
	const struct xp_watched *watched;
	void (*watched_end)(void *arg, const struct xp_thread *thread, const struct xp_ended_call *call);
	/*
	 * Returns a new stack for a thread with several stacks, or NULL. If it is NULL: each thread has one shadow
	 * stack.
	 */
	struct xp_thread *(*new_stack)(void *arg, struct xp_thread *first);
	/* With new_stack: finds the mapping of a slot, like xp_stack_range_find(). Returns 0 or -errno. */
	int (*stack_range)(void *arg, uint32_t slot, struct xp_stack_range *range);
};

/* A thread, a further stack of a thread, or a goroutine. */
struct xp_thread {
	const struct xp_thread_options *options; /* borrowed */
	pid_t tid;				 /* TID; for a further stack or goroutine: XP_STACK_TID or higher */
	struct xp_thread *first;		 /* the thread of this stack; of a thread: itself */
	struct xp_thread *now;			 /* for a thread: stack of its last record */
	struct xp_stacks stacks;		 /* for a thread: its further stacks */
	uint64_t goroutine;			 /* the goroutine (goroutines.h); 0: not a goroutine */
	uint32_t *shared_frames;     /* capacity for frames of all further stacks, or goroutines; NULL: a thread */
	struct xp_stack_range range; /* mapping of its calls, at the last lookup */
	bool had_no_room;	     /* a record did not fit into the last chunk */
	char name[16];
	struct xp_counts counts;
	uint64_t last_tsc;
	uint64_t clamped; /* number of records whose TSC was below the previous one and was raised */

	/* The current chunk. buf NULL: none. */
	struct xp_fdr_enc enc;
	uint64_t chunk_tsc;	/* its first TSC */
	uint64_t chunk_number;	/* counts up */
	uint64_t chunk_written; /* records in it */
	uint64_t chunk_carried; /* number of entries in it from xp_thread_begin_part() */

	struct xp_open_call *frames;
	struct xp_open_call_mark *marks; /* only with min_ticks */
	uint32_t depth;
	uint32_t room;
	uint32_t too_deep; /* open calls beyond XP_FRAMES_MAX */
	struct xp_frame_search search;
	struct xp_watched_call *watched; /* some may have been abandoned */
	uint32_t watched_count;
	size_t watched_room;
	struct xp_delays *delays; /* for threads with triggers (triggers.h); NULL: none so far */

	struct xp_process *process; /* its owner */
	uint64_t serial;	    /* set by the owner: unique, unlike tid */
};

/* Returns 0 or -ENOMEM. The caller calls xp_thread_flush(), then frees the thread. */
int xp_thread_new(struct xp_thread **thread, const struct xp_thread_options *options, pid_t tid);
void xp_thread_free(struct xp_thread *thread);

/* Like xp_thread_put() (thread_run.h), for any call. By value: the caller's copy stays in registers. */
int xp_thread_put_any(struct xp_thread *thread, struct xp_call call);

/* Counts a record that is filtered. Returns 0. */
int xp_thread_filter(struct xp_thread *thread, enum xp_filter filter);

/*
 * Call this when a function is throttled: its open calls will have no exits. Such a call ends no later than its caller,
 * so an exit is synthesized then, or immediately if the call is innermost. Later calls of the function do not match
 * these calls.
 */
int xp_thread_forget(struct xp_thread *thread, uint32_t fn_id);
/* Like xp_thread_forget(), for all functions for which gone() is true. */
int xp_thread_forget_if(struct xp_thread *thread, bool (*gone)(const void *arg, uint32_t fn_id), const void *arg);

/* Adds a further stack with space for frames to a thread. The caller frees the stack before the thread. */
int xp_thread_new_stack(struct xp_thread **stack, struct xp_thread *first, pid_t tid);

/*
 * Begins a new part of the recording: all counts become 0, and the current chunk belongs to the previous part. The log
 * of the part begins with the entries of the open calls, at their times, so that it contains these calls completely.
 * Returns 0, or the errors of xp_thread_put().
 */
int xp_thread_begin_part(struct xp_thread *thread);
/* Passes the current chunk to the sink and frees it: at the end, if the thread is idle, or if memory is short. */
int xp_thread_flush(struct xp_thread *thread);

#endif
