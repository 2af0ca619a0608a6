/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls in an FDR log, summed by function: what `llvm-xray account` counts, in one pass over the log.
 *
 * Memory: that of log_walk.h, about 100 bytes for each function, and durations as durations.h says, up to fixed limits.
 * Calls beyond these are counted but not timed.
 */
#ifndef XPROF_MODEL_FDR_CALLS_H
#define XPROF_MODEL_FDR_CALLS_H

#include "base/file_view.h"
#include "format/fdr_reader.h"
#include "model/durations.h"

struct xp_call_log_options {
	struct xp_durations_memory *memory; /* of the durations, which are in ns; NULL: they are not wanted */
	bool by_thread;			    /* threads are told apart */
};

struct xp_calls {
	uint32_t function_id;
	int32_t tid;		       /* by_thread, otherwise 0 */
	uint64_t calls;		       /* entries */
	uint64_t ended;		       /* calls with an exit in the log */
	uint64_t cycles;	       /* time of these, callees included */
	struct xp_durations durations; /* of these; max_at is a TSC, max_where a TID */
};

struct xp_call_log {
	uint64_t cycle_hz;
	uint64_t first_tsc; /* of the first call or return */
	uint64_t calls;
	uint64_t open;		    /* entries without an exit */
	uint64_t untimed;	    /* of these, those that there was no room for */
	struct xp_calls *functions; /* in the order of their first calls */
	size_t function_count;
	struct xp_durations_memory *memory; /* private */
};

/*
 * Reads a whole log, of which only a window is in memory at a time. On success the caller frees *log with
 * xp_call_log_free(). Returns 0 or -errno: -EBADMSG with *violation set, where *log has what precedes the violation and
 * is freed in the same way; -ENOMEM.
 */
int xp_call_log_read(struct xp_call_log *log, struct xp_file_view *view, const struct xp_call_log_options *options,
		     struct xp_violation *violation);
void xp_call_log_free(struct xp_call_log *log);

#endif
