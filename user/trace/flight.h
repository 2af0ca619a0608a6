/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flight recorder of one process: its newest FDR chunks in memory that is bounded, in place of a spool. The oldest
 * go as new ones come. When they are wanted, xp_flight_write_log() makes a log of them.
 *
 * A log must not begin in the middle of a stack: readers reject an exit without an entry. So entries are put before
 * each thread's first chunk for the calls that had begun before it; they bear its time. Calls that were left since are
 * known by their exits, those that are still open by the thread's stack, which xp_flight_add_stack() keeps.
 *
 * Errors: 0 or a negative errno. Nothing here prints.
 */
#ifndef XPROF_FLIGHT_H
#define XPROF_FLIGHT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "format/fdr.h"
#include "trace/spool.h"
#include "trace/thread.h"

struct xp_flight;

/* bytes: a power of two; memory that is touched as it fills. -ENOMEM. */
int xp_flight_new(struct xp_flight **flight, uint64_t bytes);
void xp_flight_free(struct xp_flight *flight);

/*
 * Keeps the thread's chunk, and forgets the oldest ones for it. -ENOSPC: it is longer than the whole memory.
 */
int xp_flight_add_chunk(struct xp_flight *flight, const struct xp_thread *thread);
/* The calls that the thread is in, at its end or when the log is made; one too deep for the memory is left out. */
void xp_flight_add_stack(struct xp_flight *flight, const struct xp_thread *thread);

/* Records of one thread in a log. */
struct xp_flight_share {
	uint64_t serial; /* of the thread */
	uint64_t records;
};

struct xp_flight_result {
	uint16_t fdr_version; /* of the log */
	uint32_t threads;
	uint64_t file_bytes; /* holes included */
	uint64_t first_tsc;  /* of the oldest record */
	uint64_t records;    /* in the log */
	uint64_t entries;    /* put before them, for calls that had begun before */
	uint64_t exits;	     /* of calls that were left without an exit */
	struct xp_flight_share *shares;
	size_t share_count;
};

/*
 * Writes info->final_name into the directory; it appears when it is whole. The chunks are used up by it. result->shares
 * is the caller's to free, after an error too: it then tells which records are lost. result->records 0 and
 * final_name not made: there was nothing to write.
 */
int xp_flight_write_log(struct xp_flight *flight, int dir_fd, const struct xp_spool_info *info,
			struct xp_flight_result *result);

/* What flight_ring.c keeps, in the order that it came. Private to flight*.c. */
enum xp_flight_kind {
	XP_FLIGHT_CHUNK,
	XP_FLIGHT_STACK, /* uint32_t function ids, outermost first */
	XP_FLIGHT_SKIP,	 /* nothing, to the end of the memory */
};

struct xp_flight_frame {
	uint32_t bytes; /* that follow, before padding to 8 */
	uint16_t kind;
	uint16_t typed; /* it has typed events */
	uint64_t serial;
	int32_t tid;
	uint32_t records;
	char name[16];
};

/* The frames from the oldest on: *pos is 0 at first. NULL: there are no more. Their bytes follow them. */
struct xp_flight_frame *xp_flight_next(const struct xp_flight *flight, uint64_t *pos);

#endif
