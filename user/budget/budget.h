/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The policy of --max-overhead: which functions to throttle, so that a recording costs at most a given share of the
 * target's CPU time, and when to record them again. It only decides: it sets no probes, reads no clock, prints nothing.
 *
 * A function is recorded, or only counted (at its entries, which is cheaper), or out. The most expensive functions are
 * throttled first: those with the most calls, which are the shortest. Functions with few calls are throttled only if
 * the cost is spread over many of them. A counted function is recorded again after its rate has been low for a while. A
 * function that is out is checked (counted briefly) from time to time; the more a check costs, the rarer it is.
 *
 * If the recording exceeds the budget, before the first functions are throttled or in a burst, it stays below the
 * budget afterwards to compensate.
 *
 * All rates are calls per ns of the target's own CPU time. Tracing slows a busy target down, so calls per ns of its
 * total CPU time would rise as soon as a function is throttled.
 */
#ifndef XPROF_BUDGET_BUDGET_H
#define XPROF_BUDGET_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum xp_budget_state {
	XP_BUDGET_RECORDED,
	XP_BUDGET_COUNTED,
	XP_BUDGET_OUT,
};

struct xp_budget_function {
	enum xp_budget_state state;
	bool looking;	 /* counted briefly, to check whether it has cooled down */
	float record_ns; /* cost of a recorded call in ns */
	uint64_t calls;	 /* in this tick so far; xp_budget_tick() resets it */
	double rate;	 /* smoothed; if out, the last known rate */
	double seen;	 /* calls per tick, smoothed: a rate from one or two calls is not reliable */
	uint64_t since_ns;
	uint64_t cool_since_ns; /* counted: since when recording would be cheap enough; 0: it is not */
	uint64_t look_ns;	/* out: time of the next check */
	uint32_t looks;		/* unsuccessful checks since it was last recorded */
};

struct xp_budget {
	double share;	    /* budget as a share of the target's CPU time, 0..1 */
	size_t counted_max; /* how many functions can be counted at a time */
	double count_ns;    /* cost of a counted call */
	bool unread;	    /* counted calls may be missing in this tick; xp_budget_tick() resets it */
	struct xp_budget_function *functions;
	size_t count;
	size_t room;
	size_t *order; /* [room], private */
	double spent;  /* the share of CPU time that tracing used in the last tick */
	/* The share to keep now. It depends on recent CPU time, and on the recent CPU time of tracing. */
	double allowed;
	double lately_ns;
	double lately_tracing_ns;
	double change_ns;      /* how long a change stops the target, smoothed */
	uint64_t next_look_ns; /* no check before this time, since checks are changes */
};

/* A change of a function's state. The caller calls xp_budget_set() after it has made the change. */
struct xp_budget_change {
	size_t function;
	enum xp_budget_state state;
};

void xp_budget_init(struct xp_budget *budget, double share, size_t counted_max, double count_ns);
void xp_budget_free(struct xp_budget *budget);
/*
 * Adds functions, which are recorded and have a cost of 0: the caller sets the costs. *first is the index of the first
 * one. Returns 0 or -ENOMEM.
 */
int xp_budget_add(struct xp_budget *budget, size_t count, size_t *first);

/* The minimum CPU time of a tick. With less, the caller passes 0 and adds the time to the next tick. */
#define XP_BUDGET_CPU_MIN_NS 20000000

/*
 * Call this several times a second with the target's CPU time since the last call. Learns from functions[].calls, sets
 * them to 0, and chooses changes. With cpu_ns 0 it uses the known rates. Returns the number of changes, at most max,
 * the most urgent first.
 */
size_t xp_budget_tick(struct xp_budget *budget, uint64_t now_ns, uint64_t cpu_ns, struct xp_budget_change *changes,
		      size_t max);
/*
 * Reports that a change stopped the target for stopped_ns, and so kept its threads from running for threads_ns in
 * total. The time counts as spent. The longer changes take, the rarer checks are.
 */
void xp_budget_stopped(struct xp_budget *budget, uint64_t stopped_ns, double threads_ns);
void xp_budget_set(struct xp_budget *budget, size_t function, enum xp_budget_state state, uint64_t now_ns);

#endif
