/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups slow calls by cause: what took most of each call, in which function, and which other thread was involved.
 *
 * For a lock, follows the chain of wakers: the thread that woke the caller may itself have waited for the lock. The
 * first thread that did not wait for the lock is the cause. The activity of that thread explains why it held the lock.
 */
#ifndef XPROF_EXPLAIN_CAUSES_H
#define XPROF_EXPLAIN_CAUSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "explain/call_story.h"
#include "explain/slow_calls.h"
#include "report/wait_table.h"

enum xp_cause_kind {
	XP_CAUSE_LOCK,
	XP_CAUSE_DISK,
	XP_CAUSE_WAIT, /* blocked otherwise: a pipe, a socket, a timer, ... */
	XP_CAUSE_NO_CPU,
	XP_CAUSE_CPU,
	XP_CAUSE_CALLEE, /* no waits: the time was spent in a callee, or in the function itself */
	XP_CAUSE_KINDS,
};

/* Returns the name in JSON: "lock", "disk", ... */
const char *xp_cause_kind_name(enum xp_cause_kind kind);

/* Texts are clean; "": unknown. Calls with equal texts have one cause, even if `does` differs. */
struct xp_cause {
	enum xp_cause_kind kind;
	uint32_t function;     /* function of the slow calls; 0: the cause of waits or samples without calls */
	const char *waiter;    /* without calls: name of the threads that wait or run */
	const char *place;     /* function that waits or runs */
	const char *primitive; /* library function that it calls to wait, such as "fsync" */
	const char *lock;      /* global variable that is, or contains, the lock; "": unknown */
	const char *other;     /* name of the thread that holds the lock, wakes the caller, or uses the CPU */
	const char *does;      /* activity of that thread during the slowest call: "sleeps in refresh_cache" */
	uint32_t other_tid;    /* 0: several threads */
	uint32_t cpu;	       /* the CPU of XP_CAUSE_NO_CPU; XP_MODEL_CPU_UNKNOWN: several CPUs */
	uint64_t calls;	       /* number of calls, waits or samples */
	uint64_t extra_ns;     /* time above the median of the function; or time of all waits or samples */
	const struct xp_slow_call *example; /* the slowest of these calls; NULL: a cause of waits or samples */
	uint64_t key;			    /* hash of its kind, function, threads and places */
};

/* Empty if zeroed. */
struct xp_causes {
	struct xp_cause *list; /* after xp_causes_sort(), sorted by extra time, background work last */
	size_t count;
	/* private */
	size_t room;
	struct xp_u64_map by_key;
	struct xp_u64_map recorded; /* names of the functions with calls, by address */
};

/* Call it first. The caller frees the causes in every case. Returns 0 or -ENOMEM. */
int xp_causes_init(struct xp_causes *causes, struct xp_thread_times *times, const struct xp_slow_calls *calls);
/* Adds a slow call with its story. Call it for the slowest call first. Returns 0 or -ENOMEM. */
int xp_causes_add(struct xp_causes *causes, struct xp_thread_times *times, const struct xp_slow_calls *calls,
		  struct xp_slow_call *call, const struct xp_story *story);
/* Like xp_causes_add(), for waits without calls. */
int xp_causes_add_waits(struct xp_causes *causes, struct xp_thread_times *times, const struct xp_wait_row *row);
/* Adds a sample of a thread without calls. Returns 0 or -ENOMEM. */
int xp_causes_add_sample(struct xp_causes *causes, struct xp_thread_times *times, const struct xp_model_sample *sample);
/*
 * Sorts causes of waits and samples by time. Waits that may be for events outside of the program, such as the next
 * request, are last. Removes functions with less than a twentieth of the time of all samples.
 */
void xp_causes_sort_threads(struct xp_causes *causes);
void xp_causes_sort(struct xp_causes *causes, const struct xp_slow_calls *calls);
void xp_causes_free(struct xp_causes *causes);

#define XP_CAUSE_NAME_BYTES 120 /* maximum length of a function name in a sentence */
#define XP_CAUSE_TEXT_BYTES 1024
/* Formats the cause as the predicate of a sentence: "wait for fsync in write_journal". Returns to. */
const char *xp_cause_text(char to[XP_CAUSE_TEXT_BYTES], const struct xp_cause *cause);

/* Returns whether the function has a name; if not, it is an address in the C library. */
bool xp_cause_is_named(const char *name);

/*
 * Returns the innermost function of a stack whose calls are recorded, or else the innermost function of the program;
 * NULL: the stack has only system libraries. *primitive: function of a system library that the program has called;
 * NULL: none.
 */
const char *xp_cause_place(const struct xp_causes *causes, const struct xp_model *model, uint32_t stack,
			   const char **primitive);

#endif
