/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The policy of --max-overhead: which functions to take out of a recording so that it costs no more than a share of the
 * target's CPU time, and when to put them back. Numbers in, decisions out: no probe, no clock, no printing.
 *
 * Only functions that are called again and again are taken out: when all cost something and none much, a budget cannot
 * be kept. A function is recorded, or only counted (at its entries, which is cheaper), or out. The dearest go first:
 * those that are called most, hence the shortest. One that is counted comes back when its rate has been low for a
 * while; one that is out is looked at (counted for a moment) from time to time, the rarer the more that costs.
 *
 * All rates are calls in a ns of the target's own CPU time: the time that the tracing takes slows a busy target down,
 * so calls in a ns of all its CPU time would rise as soon as something is taken out.
 */
#ifndef XPROF_BUDGET_H
#define XPROF_BUDGET_H

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
	bool looking;	 /* counted for a moment only, to see whether it has cooled */
	float record_ns; /* what a call costs when it is recorded, and when it is counted */
	float count_ns;
	uint64_t calls; /* of this tick so far, for xp_budget_tick() to take */
	bool unread;	/* there may be more of them, when it is counted; for it to take as well */
	double rate;	/* smoothed; of one that is out, as it was last seen */
	double seen;	/* calls in a tick, smoothed: a rate from a call or two says nothing */
	uint64_t since_ns;
	uint64_t cool_since_ns; /* counted: when it was first cheap enough to come back; 0: it is not */
	uint64_t look_ns;	/* out: when to look at it */
	uint32_t looks;		/* in vain, since it was last recorded */
};

struct xp_budget {
	double share; /* of the target's CPU time, 0..1 */
	struct xp_budget_function *functions;
	size_t count;
	size_t room;
	size_t *order; /* [room], private */
	double spent;  /* share that the tracing took in the last tick */
};

/* A function that changes its state; the caller sets it with xp_budget_set() when that has come about. */
struct xp_budget_change {
	size_t function;
	enum xp_budget_state state;
};

void xp_budget_init(struct xp_budget *budget, double share);
void xp_budget_free(struct xp_budget *budget);
/* Makes room for more functions, which are recorded and have costs of 0: set them. *first is the first one's index. */
int xp_budget_add(struct xp_budget *budget, size_t count, size_t *first);
/* What is known beforehand: so many calls in so many ns of the target's own CPU time. */
void xp_budget_seed(struct xp_budget *budget, size_t function, uint64_t calls, uint64_t own_ns);

/* With less CPU time than this a tick cannot learn anything: then it is 0, and added to that of the next. */
#define XP_BUDGET_CPU_MIN_NS 20000000

/*
 * To be called some times a second, with the target's CPU time since the last time: learns from functions[].calls,
 * which it clears, and decides. With cpu_ns 0 it decides by what is known already. Returns how many changes there are,
 * at most max, the most urgent first.
 */
size_t xp_budget_tick(struct xp_budget *budget, uint64_t now_ns, uint64_t cpu_ns, struct xp_budget_change *changes,
		      size_t max);
void xp_budget_set(struct xp_budget *budget, size_t function, enum xp_budget_state state, uint64_t now_ns);

#endif
