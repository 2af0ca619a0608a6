/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Goes over the calls in the FDR logs of a recording, log by log, in the order of their records. Calls are matched as
 * by fdr_calls.h.
 *
 * Memory: a window of the log, 16 bytes for each open call up to XP_LOG_WALK_OPEN_MAX, and some dozens for each thread.
 */
#ifndef XPROF_REPORT_LOG_WALK_H
#define XPROF_REPORT_LOG_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/fdr_reader.h"
#include "report/model_samples.h"

/* Open calls of all threads of a log. What is beyond is counted as dropped. */
#define XP_LOG_WALK_OPEN_MAX (2u << 20)

struct xp_walked_call {
	uint32_t function; /* id in the log */
	uint64_t tsc;
};

struct xp_walked_thread {
	uint64_t pid, tid;
	struct xp_walked_call *calls; /* that are open, the innermost last */
	size_t depth;
	void *own; /* the visitor's, with free_own(); NULL at first */
	size_t room;
};

struct xp_log_visitor {
	/* Each returns 0 or -ENOMEM, and may be NULL. The call is the thread's innermost one, its entry or its exit. */
	int (*enter)(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record);
	/* An argument of the entry before. */
	void (*argument)(void *arg, struct xp_walked_thread *thread, uint64_t value);
	int (*leave)(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record);
	/* The same without an exit in the log. */
	void (*abandon)(void *arg, struct xp_walked_thread *thread);
	void (*free_own)(void *own);
	void *arg;
	/* Of the log: set before the first call in it. */
	size_t process; /* of the recording */
	uint64_t hz;
	uint64_t dropped; /* calls that there was no room for */
};

/*
 * A malformed log is reported if `broken` is given, which is set then; what precedes it counts. Returns 0 or -ENOMEM.
 */
int xp_log_walk(struct xp_log_visitor *visitor, const struct xp_model_source *source, bool *broken);

#endif
