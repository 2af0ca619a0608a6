/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Goes over FDR logs: their records one by one, or their calls, for which entries are matched with exits as in
 * `llvm-xray account`. If an outer call ends, the calls inside it have no exit. An exit without an entry belongs to a
 * call that began before the log.
 *
 * Memory: a window of the log, and of each thread some dozens of bytes and 24 for each open call, up to the limits
 * below, whatever the log contains. Calls beyond them are dropped, counted and reported.
 */
#ifndef XPROF_MODEL_LOG_WALK_H
#define XPROF_MODEL_LOG_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file_view.h"
#include "base/progress_line.h"
#include "format/fdr_reader.h"
#include "model/log_functions.h"

#define XP_LOG_WALK_OPEN_MAX (2u << 20)	     /* open calls of all threads of a log: 48 MiB */
#define XP_LOG_WALK_THREADS_MAX (512u << 10) /* with their table: 44 MiB */

/* ---- records ---- */

struct xp_log_cursor {
	struct xp_fdr_reader reader;
	/* private */
	struct xp_file_view *view;
	struct xp_progress_line line;
	uint64_t release;
};

/* The caller calls xp_log_cursor_close(), also after an error. Returns 0, or -EBADMSG with *violation set. */
int xp_log_cursor_open(struct xp_log_cursor *cursor, struct xp_file_view *view, struct xp_violation *violation);
/* As xp_fdr_reader_next(). */
int xp_log_cursor_next(struct xp_log_cursor *cursor, struct xp_fdr_record *record, struct xp_violation *violation);
void xp_log_cursor_close(struct xp_log_cursor *cursor);

/* Finds the functions of a process's log, up to where it is well formed. Returns 0 or -ENOMEM. */
int xp_log_find_functions(struct xp_log_functions *functions, size_t process, struct xp_file_view *view);

/* ---- calls ---- */

struct xp_walked_call {
	uint32_t function : 31; /* index in visitor->functions */
	uint32_t is_tail : 1;	/* it has jumped to the call within it, and ends with that */
	uint32_t mark;		/* the visitor's; 0 at first */
	uint64_t tsc;
	uint64_t sum; /* the same */
};

struct xp_walked_thread {
	uint32_t pid, tid;
	bool is_left_out;  /* set by the visitor: its records are skipped */
	bool has_records;  /* before the current one */
	uint64_t tail_tsc; /* the innermost call ended with a jump then; 0: it did not, or tails are not followed */
	uint32_t number;   /* the visitor's; 0 at first */
	void *own;	   /* the same, with free_own() */
	/* Those that are open, the innermost last. */
	struct xp_walked_call *calls;
	size_t depth, room;
};

/*
 * The functions of a visitor of a log. Each may be NULL, and returns 0 or -errno, which ends the walk. -E2BIG: the
 * visitor has no space for the thread or the call, which is dropped.
 */
struct xp_log_visitor {
	/*
	 * Whether the innermost call, which ends with a jump to another function, goes on until that returns. NULL:
	 * none does. The other function may have no sleds: it has if the thread's next record is its entry, within
	 * 10 us. If it has not, that may be another call of the caller.
	 */
	bool (*follows_tail)(void *arg, const struct xp_walked_thread *thread);
	/* Before the first record. -EBADMSG with *violation set: the log is none. end() is called also then. */
	int (*begin)(void *arg, struct xp_file_view *view, struct xp_violation *violation);
	/*
	 * Each call, return and, if there is event(), event, before anything else of it. function: its index, or
	 * XP_MODEL_NONE: there is no space for it, or it is an event.
	 */
	int (*record)(void *arg, const struct xp_fdr_record *record, uint32_t function);
	/* The first record of a thread. */
	int (*add_thread)(void *arg, struct xp_walked_thread *thread);
	/* The call is the thread's innermost one, at its entry and its exit. */
	int (*enter)(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record);
	/* An argument of the entry before. */
	int (*argument)(void *arg, struct xp_walked_thread *thread, uint64_t value);
	int (*leave)(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record);
	/* The innermost call has no exit. record: the exit of one of its callers; NULL: the end of the log. */
	int (*abandon)(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record);
	int (*event)(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record);
	void (*end)(void *arg);
	void (*free_own)(void *own);
	/* Whether the log of this process of the recording is read. NULL: all are. */
	bool (*wants)(void *arg, size_t process);
	void *arg;
	struct xp_log_functions *functions; /* NULL: indexes are the log's IDs */
	bool counts_all;		    /* record() counts also the calls that are dropped */

	/* Of the log: set before begin(). */
	size_t process; /* of the recording */
	uint64_t hz;
	uint64_t from_tsc, to_tsc; /* the selected times */
	uint64_t last_tsc;	   /* of the records so far */
	/*
	 * Of a part of a recording: its start, before which calls may have begun, and its end, after which calls
	 * without an exit go on in the next part, where they count. 0: none.
	 */
	uint64_t part_tsc, goes_on_tsc;
	/* Of all logs. */
	uint64_t dropped;   /* calls and events beyond the limits */
	uint64_t refused;   /* calls and events for which the visitor had no space */
	uint64_t start_tsc; /* what the selected times count from: set before begin() */
	/* private */
	const struct xp_model_source *source; /* NULL: none */
};

/*
 * Returns whether logs with these frequencies can be of one clock. The first estimate of a frequency takes 20 ms, with
 * errors of at most 1 us at both ends where the machine is busy: 100 ppm.
 */
#define XP_LOG_CLOCK_ERROR 10000
bool xp_log_same_clock(uint64_t hz, uint64_t other_hz);

/*
 * Walks over the logs of a recording. A log that is malformed or cannot be read is reported if `broken` is given, which
 * is set then; what precedes counts. What is dropped is reported with it, too. Returns 0, or what a function returned.
 */
int xp_log_walk(struct xp_log_visitor *visitor, const struct xp_model_source *source, bool *broken);
/* Walks over one log. Returns the same, or -EBADMSG with *violation set. */
int xp_log_walk_view(struct xp_log_visitor *visitor, struct xp_file_view *view, struct xp_violation *violation);

#endif
