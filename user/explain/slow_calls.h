/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slow calls in the FDR logs of a recording, and typical calls of the same functions for comparison. The logs are
 * read twice: for the durations of all functions, then for the calls to keep, with their arguments, callees and
 * callers. A call that ends with a jump to another function lasts until that function returns.
 *
 * If no functions are selected, this finds those that handle requests. A function is outermost if it has at least 16
 * calls, and at least half of them have no caller with 16 calls. The extra time of a function is the time by which its
 * calls exceed the median. Among the outermost functions with at least a twentieth of all extra time, the function with
 * the most calls handles requests, and so does each function with at least a tenth as many calls; the others do
 * background work. If no function is outermost, the function whose slowest call exceeds its median most is used.
 *
 * Requests between two USDT probes are calls, too, without callers; explain.c finds their callees.
 *
 * With a tail, the slowest calls of each function are slow, and the fastest ones are typical.
 *
 * Memory: that of log_walk.h and durations.h, and 1 KB for each call that is kept and for each open call that may be
 * kept, at most 8 per thread.
 */
#ifndef XPROF_EXPLAIN_SLOW_CALLS_H
#define XPROF_EXPLAIN_SLOW_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "explain/usdt_requests.h"
#include "model/durations.h"
#include "model/log_functions.h"

#define XP_SLOW_CALLS_MAX 1000 /* that are kept */
#define XP_OFTEN_CALLED 16     /* calls: a function with fewer has no typical ones */
#define XP_SLOW_BACKGROUND_MAX 200
#define XP_SLOW_FUNCTIONS_MAX 4 /* maximum number of functions found for requests, and for background work */
#define XP_USUAL_CALLS_MAX 500
#define XP_CALL_ARGS_MAX 6
#define XP_CALL_CALLERS_MAX 16
#define XP_CALL_CALLEES_MAX 24

/* A function in any of the logs. */
struct xp_call_function {
	const char *name;
	bool is_wanted;
	bool is_background;
	struct xp_durations durations; /* in ns */
	double ns;		       /* their sum */
	uint64_t outermost;	       /* number of calls without a caller that is called often */
	uint64_t median_ns;
	uint64_t usual_ns; /* longer calls are not typical */
	uint64_t slow_ns;  /* calls of at least this duration are slow */
	uint64_t slow;	   /* number of slow calls, kept or not */
	uint64_t extra_ns; /* time by which these exceed the median */
};

/* A callee: the time of all its calls directly within one call. */
struct xp_call_callee {
	uint32_t function;
	uint64_t calls;
	uint64_t ns; /* callees included */
};

struct xp_slow_call {
	uint32_t function; /* function, and functions below: indexes of struct xp_call_function */
	uint32_t process;  /* index of the process in the recording */
	uint64_t pid, tid;
	uint64_t begin_ns, end_ns; /* since the start of the recording */
	uint16_t cpu;		   /* at the entry */
	uint64_t args[XP_CALL_ARGS_MAX];
	unsigned int arg_count;
	uint32_t callers[XP_CALL_CALLERS_MAX];		    /* the innermost first */
	size_t caller_count;				    /* number of all callers; only the first ones are stored */
	struct xp_call_callee callees[XP_CALL_CALLEES_MAX]; /* the longest time first */
	size_t callee_count;
	struct xp_call_callee further; /* all others */
	uint64_t cause;		       /* for a slow call: the key of its cause, set by xp_causes_add() */
};

static inline uint64_t xp_slow_call_ns(const struct xp_slow_call *call)
{
	return call->end_ns - call->begin_ns;
}

struct xp_slow_calls_options {
	size_t slowest;	   /* calls that are kept even if they are not slow; 0: none */
	uint64_t above_ns; /* only calls that take longer; 0: all */
	double tail;	/* share of the calls of each function that are slow; 0: those of at least twice the median */
	double against; /* with tail: share of these calls that are typical, the fastest ones */
	/* Pairs of probes are functions, too: the first ones. Their requests are calls of threads of the model. */
	const struct xp_usdt_requests *requests;
	const struct xp_model *model;
};

/* The slowest calls, sorted with the slowest first after all are read. */
struct xp_call_heap {
	struct xp_slow_call *list;
	size_t count, max;
};

struct xp_slow_calls {
	struct xp_call_function *functions;
	size_t function_count;
	bool is_selected;	 /* source->select selects functions of the logs */
	bool is_found;		 /* no function is selected, and functions of requests were found */
	struct xp_durations all; /* durations in ns of all calls of the selected functions, except background work */
	struct xp_call_heap slow, background;
	/* A random sample of the shortest 90 % of each function's calls, or with --against of its fastest calls. */
	struct xp_slow_call *usual;
	size_t usual_count;
	uint64_t above; /* number of calls longer than above_ns, kept or not */
	/* private */
	struct xp_log_functions logged; /* the same functions with the same indexes */
	struct xp_durations_memory memory;
	size_t function_room;
};

/* Returns the function that a call called for at least half of its time, after the call has been read; NULL: none. */
static inline const struct xp_call_function *xp_slow_call_main_callee(const struct xp_slow_calls *calls,
								      const struct xp_slow_call *call)
{
	const struct xp_call_callee *most = NULL;

	for (size_t i = 0; i < call->callee_count; i++)
		if (!most || call->callees[i].ns > most->ns)
			most = &call->callees[i];
	return most && most->ns * 2 >= xp_slow_call_ns(call) ? &calls->functions[most->function] : NULL;
}

/* Returns whether a call is slow. If a function has no slow call, its slowest call counts as slow. */
static inline bool xp_slow_call_is_slow(const struct xp_slow_calls *calls, const struct xp_slow_call *call)
{
	return xp_slow_call_ns(call) >= calls->functions[call->function].slow_ns;
}

/*
 * source->select chooses the functions; without it, they are found. The caller calls xp_slow_calls_free(), also after
 * an error. Returns 0 or -errno: -ENOMEM, -EAGAIN.
 */
int xp_slow_calls_read(struct xp_slow_calls *calls, const struct xp_model_source *source,
		       const struct xp_slow_calls_options *options, bool *broken);
/* Sets is_wanted and is_background of the functions. Their durations and medians are already set. */
void xp_slow_calls_choose(struct xp_slow_calls *calls);
void xp_slow_calls_free(struct xp_slow_calls *calls);

#endif
