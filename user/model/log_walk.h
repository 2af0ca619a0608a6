/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the calls in FDR logs: matches entries with exits, as `llvm-xray account` does. If an outer call ends, the
 * calls inside it have no exit. An exit without an entry belongs to a call that began before the log. Memory: a window
 * of the log, 88 bytes for each thread and 24 for each open call, up to the limits below. Calls beyond the limits are
 * dropped, counted and reported.
 */
#ifndef XPROF_MODEL_LOG_WALK_H
#define XPROF_MODEL_LOG_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file_view.h"
#include "format/fdr_reader.h"
#include "model/log_functions.h"

#define XP_LOG_WALK_OPEN_MAX (2u << 20)	     /* limit of the open calls of all threads of a log: 48 MiB */
#define XP_LOG_WALK_THREADS_MAX (512u << 10) /* limit of threads, with their table: 44 MiB */

/* Finds the functions in the log of a process, up to the first malformed record. Returns 0 or -ENOMEM. */
int xp_log_find_functions(struct xp_log_functions *functions, size_t process, struct xp_file_view *view);

struct xp_walked_call {
	uint32_t function : 31; /* index in visitor->functions */
	uint32_t is_tail : 1;	/* the call jumped to the call inside it, and ends with that call */
	uint32_t mark;		/* for the visitor; initially 0 */
	uint64_t tsc;
	uint64_t sum; /* for the visitor; initially 0 */
};

struct xp_walked_thread {
	uint32_t pid, tid;
	bool is_left_out;  /* set by the visitor: skip the records of the thread */
	bool has_records;  /* the thread has records before the current one */
	uint64_t tail_tsc; /* when the innermost call ended with a jump; 0: it did not, or tails are not followed */
	uint32_t number;   /* for the visitor; initially 0 */
	void *own;	   /* for the visitor, which defines free_own(); initially NULL */
	/* The open calls, the innermost last. */
	struct xp_walked_call *calls;
	size_t depth, room;
};

/*
 * Functions that are called for each log. Each may be NULL. An error ends the walk, except -E2BIG: the visitor has no
 * space for the thread or the call, which is then dropped.
 */
struct xp_log_visitor {
	/*
	 * Returns whether the innermost call, which ends with a jump to another function, continues until that function
	 * returns. NULL: no call continues. The other function has sleds if its entry is the thread's next record,
	 * within 10 us. Otherwise that entry may be another call of the caller.
	 */
	bool (*follows_tail)(void *arg, const struct xp_walked_thread *thread);
	/*
	 * Called before the first record. -EBADMSG with *violation set: this is not a log. Then end() is called, too.
	 */
	int (*begin)(void *arg, struct xp_file_view *view, struct xp_violation *violation);
	/*
	 * Called before the other functions for each call, each return and, if event() is defined, each event.
	 * function: index; XP_MODEL_NONE: there is no space for the function, or the record is an event.
	 */
	int (*record)(void *arg, const struct xp_fdr_record *record, uint32_t function);
	/* Called at the first record of a thread. */
	int (*add_thread)(void *arg, struct xp_walked_thread *thread);
	/* Called at the entry and at the exit of the thread's innermost call. */
	int (*enter)(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record);
	/* Called for an argument of the last entry. */
	int (*argument)(void *arg, struct xp_walked_thread *thread, uint64_t value);
	int (*leave)(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record);
	/* The innermost call has no exit. record: the exit of one of its callers; NULL: the end of the log. */
	int (*abandon)(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record);
	int (*event)(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record);
	void (*end)(void *arg);
	void (*free_own)(void *own);
	/* Returns whether to read the log of this process of the recording. NULL: all logs are read. */
	bool (*wants)(void *arg, size_t process);
	void *arg;
	struct xp_log_functions *functions; /* NULL: indexes are the log's IDs */
	bool counts_all;		    /* record() also counts calls that are dropped */

	/* The current log, set before begin(): */
	size_t process; /* index of the process in the recording */
	uint64_t hz;
	uint64_t from_tsc, to_tsc; /* the selected times */
	uint64_t last_tsc;	   /* time of the latest record so far */
	/*
	 * Start and end of a part of a recording; 0: not a part. Calls may have begun before the start. Calls without
	 * an exit continue after the end, and count in the next part.
	 */
	uint64_t part_tsc, goes_on_tsc;
	/* All logs. */
	uint64_t dropped;   /* calls and events beyond the limits */
	uint64_t refused;   /* calls and events for which the visitor had no space */
	uint64_t start_tsc; /* of the source, whose offset_ns is that of this time: set before begin() */
	/* private */
	const struct xp_model_source *source; /* NULL: none */
};

/*
 * Returns whether logs with these frequencies may have the same clock. The first estimate of a frequency takes 20 ms,
 * with an error of up to 1 us at both ends on a busy machine: 100 ppm.
 */
#define XP_LOG_CLOCK_ERROR 10000
bool xp_log_same_clock(uint64_t hz, uint64_t other_hz);

/*
 * Walks over the logs of a recording: those of source->directory, or all if there is none. With `broken`, reports each
 * log that is malformed or cannot be read and sets *broken, and reports the number of dropped calls. The records before
 * a malformed one count. Returns 0, or the error of a function.
 */
int xp_log_walk(struct xp_log_visitor *visitor, const struct xp_model_source *source, bool *broken);
/* The same for all directories of source->recorded, one after the other: visitor->source is that of the part. */
int xp_log_walk_parts(struct xp_log_visitor *visitor, const struct xp_model_source *source, bool *broken);
/*
 * Returns whether a call that began then is selected. A call that began in an earlier part counts from the start of
 * this part: so of several adjacent time spans, each call counts in only one.
 */
static inline bool xp_log_walk_selects(const struct xp_log_visitor *visitor, uint64_t begin_tsc)
{
	uint64_t tsc = begin_tsc > visitor->part_tsc ? begin_tsc : visitor->part_tsc;

	return tsc >= visitor->from_tsc && tsc < visitor->to_tsc;
}

/* When that was, on a clock that shows start_ns when the recording, or its first part, began: at least 0. */
uint64_t xp_log_walk_ns(const struct xp_log_visitor *visitor, uint64_t start_ns, uint64_t tsc);

/* Walks over one log. Returns 0, the error of a function, or -EBADMSG with *violation set. */
int xp_log_walk_view(struct xp_log_visitor *visitor, struct xp_file_view *view, struct xp_violation *violation);

#endif
