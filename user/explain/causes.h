/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups slow calls by cause: what took most of each call, in which function, and which other thread was involved.
 *
 * A lock is followed to its root: the thread that woke the caller may itself have waited for the lock, so the chain of
 * wakers is followed to the first thread that did not. The activity of that thread explains why the lock was held.
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
	XP_CAUSE_CALLEE, /* without waits: in what it called, or in itself */
	XP_CAUSE_KINDS,
};

/* As in JSON: "lock", "disk", ... */
const char *xp_cause_kind_name(enum xp_cause_kind kind);

/* Texts are clean; "": unknown. Calls with the same texts, but for what the other thread does, have one cause. */
struct xp_cause {
	enum xp_cause_kind kind;
	uint32_t function;     /* of the slow calls; 0: of waits and samples without calls */
	const char *waiter;    /* without calls: the name of the threads that wait or run */
	const char *place;     /* the function that waits, or runs */
	const char *primitive; /* the library's function that it waits in, such as "fsync" */
	const char *lock;      /* the global variable that the lock is, or is in; "": unknown */
	const char *other;     /* the name of the thread that holds the lock, wakes the caller, or has the CPU */
	const char *does;      /* what that thread does meanwhile, in the slowest call: "sleeps in refresh_cache" */
	uint32_t other_tid;    /* 0: there are several */
	uint32_t cpu;	       /* of XP_CAUSE_NO_CPU; XP_MODEL_CPU_UNKNOWN: there are several */
	uint64_t calls;	       /* or waits, or samples */
	uint64_t extra_ns; /* by which these exceed the median of their function; or the time of all waits or samples */
	const struct xp_slow_call *example; /* the slowest of these calls; NULL: of waits or samples */
	uint64_t key;			    /* of its kind, function, threads and places */
};

/* Empty if zeroed. */
struct xp_causes {
	struct xp_cause *list; /* that with the most extra time first, after xp_causes_sort(); background work last */
	size_t count;
	/* private */
	size_t room;
	struct xp_u64_map by_key;
	struct xp_u64_map recorded; /* names of the functions with calls, by address */
};

/* Call it first. The caller frees the causes in every case. Returns 0 or -ENOMEM. */
int xp_causes_init(struct xp_causes *causes, struct xp_thread_times *times, const struct xp_slow_calls *calls);
/* Adds a slow call with its story, the slowest first. Returns 0 or -ENOMEM. */
int xp_causes_add(struct xp_causes *causes, struct xp_thread_times *times, const struct xp_slow_calls *calls,
		  struct xp_slow_call *call, const struct xp_story *story);
/* Like xp_causes_add(), for waits, without calls. */
int xp_causes_add_waits(struct xp_causes *causes, struct xp_thread_times *times, const struct xp_wait_row *row);
/* Adds a sample of a thread, without calls. Returns 0 or -ENOMEM. */
int xp_causes_add_sample(struct xp_causes *causes, struct xp_thread_times *times, const struct xp_model_sample *sample);
/*
 * Sorts causes of waits and samples by time; waits that may be for events outside of the program, such as the next
 * request, come last. Removes functions with less than a twentieth of the time of all samples.
 */
void xp_causes_sort_threads(struct xp_causes *causes);
void xp_causes_sort(struct xp_causes *causes, const struct xp_slow_calls *calls);
void xp_causes_free(struct xp_causes *causes);

#define XP_CAUSE_NAME_BYTES 120 /* of a function in a sentence */
#define XP_CAUSE_TEXT_BYTES 1024
/* The cause as the predicate of a sentence about these calls: "wait for fsync in write_journal". Returns to. */
const char *xp_cause_text(char to[XP_CAUSE_TEXT_BYTES], const struct xp_cause *cause);

/* Returns whether it is a name: a function without one is an address in the C library. */
bool xp_cause_is_named(const char *name);

/*
 * The innermost function of a stack whose calls are recorded, or else the innermost one of the program; NULL: a stack
 * of only libraries of the system. *primitive: what the program has called in such a library; NULL: nothing.
 */
const char *xp_cause_place(const struct xp_causes *causes, const struct xp_model *model, uint32_t stack,
			   const char **primitive);

#endif
