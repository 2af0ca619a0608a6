/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flight recorder of one process: its newest FDR chunks in bounded memory, instead of a spool. New chunks evict the
 * oldest ones. On demand, xp_flight_write_log() makes a log of them.
 *
 * A log must not begin in the middle of a stack: readers reject an exit without an entry. So the log gets entries for
 * the calls that began earlier, before each thread's first chunk and with the time of that chunk. Their exits show
 * which of these calls have returned since; the thread's stack, which xp_flight_add_stack() stores, shows the open
 * ones.
 *
 * Functions return 0 or -errno. Nothing here prints.
 */
#ifndef XPROF_TRACE_FLIGHT_H
#define XPROF_TRACE_FLIGHT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "format/fdr.h"
#include "trace/spool.h"
#include "trace/thread.h"

struct xp_flight;

/* bytes: a power of two. Pages are allocated as the memory fills. Returns 0 or -ENOMEM. */
int xp_flight_new(struct xp_flight **flight, uint64_t bytes);
void xp_flight_free(struct xp_flight *flight);

/*
 * Stores the thread's chunk, and evicts old chunks. Returns 0, or -ENOSPC for a chunk of more than half of the memory.
 */
int xp_flight_add_chunk(struct xp_flight *flight, const struct xp_thread *thread);
/* Stores the thread's open calls, at its exit or when a log is made. Skips a stack that is too deep for the memory. */
void xp_flight_add_stack(struct xp_flight *flight, const struct xp_thread *thread);

/* Records of one thread in a log. */
struct xp_flight_share {
	uint64_t serial; /* serial of the thread */
	uint64_t records;
};

struct xp_flight_result {
	uint16_t fdr_version; /* FDR version of the log */
	uint32_t threads;
	uint64_t file_bytes; /* including holes */
	uint64_t first_tsc;  /* TSC of the oldest record */
	uint64_t records;    /* in the log */
	uint64_t entries;    /* entries added before the chunks, for calls that began earlier */
	uint64_t exits;	     /* synthesized, for calls without an exit */
	struct xp_flight_share *shares;
	size_t share_count;
};

/*
 * Writes info->final_name into the directory; the file appears only when complete. The caller frees result->shares,
 * which contain the lost records after an error. If there was nothing to write, result->records is 0 and there is no
 * file.
 */
int xp_flight_write_log(struct xp_flight *flight, int dir_fd, const struct xp_log_info *info, xp_log_maker make,
			struct xp_flight_result *result);

/* The frames that flight.c stores, in order of arrival. Private to flight*.c. */
enum xp_flight_kind {
	XP_FLIGHT_CHUNK,
	XP_FLIGHT_STACK, /* uint32_t function IDs, outermost first */
	XP_FLIGHT_SKIP,	 /* unused up to the end of the memory */
};

struct xp_flight_frame {
	uint32_t bytes; /* number of bytes that follow, before padding to 8 */
	uint16_t kind;
	uint16_t typed; /* contains typed events */
	uint64_t serial;
	int32_t tid;
	uint32_t records;
	char name[16];
};

/* Returns the next frame, oldest first, or NULL at the end. *pos is 0 at first. The bytes of a frame follow it. */
struct xp_flight_frame *xp_flight_next(const struct xp_flight *flight, uint64_t *pos);

#endif
