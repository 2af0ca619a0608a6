/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slowest calls in the FDR logs of a recording, and some usual ones of the same functions to compare them with. The
 * logs are gone over twice: for the durations of all functions, and for the calls that are kept, with their arguments,
 * callers and callees.
 *
 * Memory: that of log_walk.h and durations.h, 1 KB for each call that is kept and for each open call that may be, 8 of
 * a thread at most.
 */
#ifndef XPROF_EXPLAIN_SLOW_CALLS_H
#define XPROF_EXPLAIN_SLOW_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/durations.h"
#include "model/read_samples.h"
#include "model/timeline_names.h"

#define XP_SLOW_CALLS_MAX 1000 /* that are kept */
#define XP_SLOW_COMPARED 100   /* slow calls that are looked at for what they have in common, if no limit is given */
#define XP_USUAL_CALLS_MAX 500
#define XP_CALL_ARGS_MAX 6
#define XP_CALL_CALLERS_MAX 16
#define XP_CALL_CALLEES_MAX 24

/* A function of all logs. */
struct xp_call_function {
	const char *name;
	bool is_wanted;
	struct xp_durations durations; /* in ns */
	uint64_t usual_ns;	       /* longer calls are not usual */
};

/* What the calls of one function took within a call, as far as that called them directly. */
struct xp_call_callee {
	uint32_t function;
	uint64_t calls;
	uint64_t ns; /* callees included */
};

struct xp_slow_call {
	uint32_t function; /* all are indexes of struct xp_call_function */
	uint32_t process;  /* of the recording */
	uint64_t pid, tid;
	uint64_t begin_ns, end_ns; /* since the start of the recording */
	uint16_t cpu;		   /* at the entry */
	uint64_t args[XP_CALL_ARGS_MAX];
	unsigned int arg_count;
	uint32_t callers[XP_CALL_CALLERS_MAX];		    /* the innermost first */
	size_t caller_count;				    /* of all; the first ones are known */
	struct xp_call_callee callees[XP_CALL_CALLEES_MAX]; /* what took longest comes first */
	size_t callee_count;
	struct xp_call_callee further; /* all others */
};

static inline uint64_t xp_slow_call_ns(const struct xp_slow_call *call)
{
	return call->end_ns - call->begin_ns;
}

struct xp_slow_calls_options {
	size_t slowest;	   /* calls that are shown, at most XP_SLOW_CALLS_MAX */
	uint64_t above_ns; /* only calls that take longer; 0: all */
	bool full_names;
};

struct xp_slow_calls {
	struct xp_call_function *functions;
	size_t function_count;
	struct xp_durations all;   /* of the wanted functions, in ns */
	struct xp_slow_call *slow; /* the slowest first */
	size_t slow_count;	   /* of these, */
	size_t compared;	   /* those that are slow enough for a comparison */
	struct xp_slow_call
	    *usual; /* chosen at random among the 90 % of each function that are shorter than the rest */
	size_t usual_count;
	uint64_t above; /* how many calls took longer than above_ns, kept or not */
	/* private */
	struct xp_timeline_names names;
	struct xp_durations_memory memory;
	size_t function_room;
};

/*
 * source->select chooses the functions. If it has none, that of the calls whose slowest one exceeds its median most, of
 * those that were called 16 times or more. The caller calls xp_slow_calls_free(), also after an error. Returns 0 or
 * -errno: -ENOMEM, -EAGAIN.
 */
int xp_slow_calls_read(struct xp_slow_calls *calls, const struct xp_model_source *source,
		       const struct xp_slow_calls_options *options, bool *broken);
void xp_slow_calls_free(struct xp_slow_calls *calls);

#endif
