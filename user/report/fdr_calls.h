/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls in an FDR log, summed by function: what `llvm-xray account` counts, in one pass through the log.
 *
 * Memory: some dozens of bytes for each function and thread, 16 for each open call, up to fixed limits; calls beyond
 * these are counted and not timed.
 */
#ifndef XPROF_FDR_CALLS_H
#define XPROF_FDR_CALLS_H

#include "format/fdr_reader.h"

struct xp_calls {
	uint32_t function_id;
	uint64_t calls;	 /* entries */
	uint64_t ended;	 /* those whose exit is in the log too */
	uint64_t cycles; /* of those, callees included */
};

struct xp_call_log {
	uint64_t cycle_hz;
	uint64_t calls;
	uint64_t open;		    /* entries without an exit */
	struct xp_calls *functions; /* in the order of their first call */
	size_t function_count;
};

/*
 * Reads all of a log. On success the caller frees with xp_call_log_free(). -EBADMSG with *violation: what stands before
 * the violation is in *log, which is freed likewise. -ENOMEM.
 */
int xp_call_log_read(struct xp_call_log *log, const uint8_t *bytes, uint64_t size, struct xp_violation *violation);
void xp_call_log_free(struct xp_call_log *log);

#endif
