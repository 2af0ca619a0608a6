/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why calls were slow: `xprof explain`.
 *
 *	FDR logs   -->  slow_calls.h          --\
 *						  >--  call_story.h, causes.h, common_causes.h  -->  explain_*.c
 *	perf.data  -->  model/thread_times.h  --/
 *
 * Calls, samples and waits have one clock, the TSC. If a recording has no calls, the waits and samples of its threads
 * are explained.
 */
#ifndef XPROF_EXPLAIN_EXPLAIN_H
#define XPROF_EXPLAIN_EXPLAIN_H

#include <stdbool.h>
#include <stdio.h>

#include "explain/call_tree.h"
#include "explain/causes.h"
#include "explain/common_causes.h"
#include "explain/request_spans.h"
#include "model/read_waits.h"
#include "report/wait_table.h"

/* Version of the JSON: incremented when a member is removed or changes its meaning. */
#define XP_EXPLAIN_VERSION 1
#define XP_EXPLAIN_SLOWEST 5
#define XP_EXPLAIN_TRIGGERED_MAX 16
#define XP_CAUSES_SHOWN 10u

struct xp_part_list;

struct xp_explain_options {
	/* Globs, and as requests also pairs of USDT probes (usdt_requests.h); none: those that triggers of the
	 * recording found, or some are chosen (slow_calls.h). */
	const char *const *functions;
	size_t function_count;
	bool are_requests; /* calls of these functions are requests */
	size_t slowest;	   /* number of calls to print; 0: one of each cause, and XP_EXPLAIN_SLOWEST waits */
	uint64_t above_ns;
	double tail;	/* share of calls that count as slow, the slowest ones; 0: see slow_calls.h */
	double against; /* with tail: share of calls that count as typical, the fastest ones */
	bool full_names;
	const char *instr_map; /* as in struct xp_model_source */
};

/* A slow call that is printed. */
struct xp_explained_call {
	const struct xp_slow_call *call;
	struct xp_story story;
	struct xp_request_spans spans;
};

struct xp_explanation {
	struct xp_explain_options options; /* with the caller's functions and instr_map */
	struct xp_recorded recorded;
	const struct xp_facts *facts; /* of the first part */
	struct xp_select select;
	const char **functions; /* those of the options that are no pairs of USDT probes */
	struct xp_usdt_requests requests;
	const char *triggered[XP_EXPLAIN_TRIGGERED_MAX]; /* functions of calls that triggers found; see select */
	struct xp_slow_calls calls;
	struct xp_thread_times times;
	size_t slowest; /* maximum number of printed calls */
	struct xp_explained_call *shown;
	size_t shown_count;
	struct xp_commons commons;
	struct xp_call_tree tree; /* tree of the same calls */
	struct xp_causes causes;
	uint64_t slow_ns, background_ns; /* extra time of slow calls with a cause */
	struct xp_wakeups wakeups;
	bool follows;		    /* the calls are requests: includes the work of other threads for them */
	struct xp_wait_table locks; /* contended locks, by address; by code location if the address is unknown */
	struct xp_wait_table waits; /* if there are no calls; the row with the longest wait first */
	bool broken;		    /* a part of the recording is malformed, which was printed */
};

/*
 * Explains a recording, or its parts as one recording: all times are since the start of the first part. A call that
 * began before is read from there on. Prints errors. The caller frees it in every case. Returns 0 or -errno: -ENOENT if
 * there is no recording, -ENODATA if nothing in it is to be explained, for the reason of xp_why(), which is not
 * printed.
 */
int xp_explain(struct xp_explanation *explanation, struct xp_part_list *parts,
	       const struct xp_explain_options *options);
void xp_explanation_free(struct xp_explanation *explanation);

/* Makes the story of a slow call: what its thread waited for, and where it ran. */
void xp_explanation_story(struct xp_story *story, const struct xp_explanation *explanation,
			  const struct xp_slow_call *call);
/* Finds the work of other threads for a call with this story; none if calls are not requests. */
void xp_explanation_spans(struct xp_request_spans *spans, const struct xp_explanation *explanation,
			  const struct xp_story *story);

/* Returns the share of a cause in the extra time of all requests, or of all background work. */
double xp_explanation_share(const struct xp_explanation *explanation, const struct xp_cause *cause);
/* Returns the cause of a slow call; NULL: unknown. */
const struct xp_cause *xp_explanation_cause(const struct xp_explanation *explanation, const struct xp_slow_call *call);
/* Formats "lock: 20 of 60 slow handle_request (77 % of the extra time) wait for ..." Returns to. */
const char *xp_cause_sentence(char to[XP_CAUSE_TEXT_BYTES], const struct xp_explanation *explanation,
			      const struct xp_cause *cause);
/* Formats which functions were found to handle requests or do background work, and why. Returns to; "": none. */
const char *xp_requests_sentence(char to[XP_CAUSE_TEXT_BYTES], const struct xp_explanation *explanation,
				 bool is_background);

/* A contended lock, for tables: the thread that released it most often, and where threads waited. */
struct xp_lock_text {
	char name[XP_CAUSE_NAME_BYTES + 1]; /* name of its variable, or its address; "": unknown */
	char holder[XP_WAKER_BYTES + 24];
	const char *place;
};
void xp_lock_text(struct xp_lock_text *text, const struct xp_explanation *explanation, const struct xp_wait_row *row);

void xp_call_tree_print(FILE *out, const struct xp_call_tree *tree, int columns);

/* Formats the thread's name, clean; "": unknown. Returns to. */
#define XP_EXPLAINED_NAME_BYTES 64
const char *xp_explained_thread_name(char to[XP_EXPLAINED_NAME_BYTES], const struct xp_explanation *explanation,
				     const struct xp_explained_call *shown);

/* Prints lines of at most `columns`, if names allow that. Check ferror(out) for errors. */
void xp_explanation_print(FILE *out, const struct xp_explanation *explanation, int columns);
/* Writes JSON as in xprof-formats(5). Returns 0 or -ENOMEM; check ferror(out) for errors of writing. */
int xp_explanation_write_json(FILE *out, const struct xp_explanation *explanation);

#endif
