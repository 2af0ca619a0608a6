/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the log of a process from its stored chunks, which wait in a spool or in the memory of a flight recorder. The
 * layout of a log needs sums over all chunks before it can place the first one. So the chunks are read twice: the
 * first pass adds them to the sums, the second one places them.
 *
 * Functions return 0 or -errno. Nothing here prints.
 */
#ifndef XPROF_FORMAT_CHUNK_LOG_H
#define XPROF_FORMAT_CHUNK_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/u64_map.h"

/* The process and the clock of a log. */
struct xp_log_info {
	int32_t pid;
	uint16_t fdr_version; /* the requested version, 1 or 5; typed events make it 5 */
	bool constant_tsc;
	bool nonstop_tsc;
	bool names_only; /* of a spool: see XP_SPOOL_NAMES_ONLY */
	uint64_t cycle_hz;
	uint64_t start_tsc; /* start of the recording */
	uint64_t wall_ns;   /* CLOCK_REALTIME at start_tsc */
	const char *comm;
	const char *exe;	/* path of the executable */
	const char *final_name; /* name of the log, in the directory of its spool */
};

/* A stored chunk. */
struct xp_chunk {
	int32_t tid;
	uint32_t bytes;
	uint64_t first_tsc;
	const char *name; /* name of the thread, of which 15 bytes are kept; NULL: not known */
	bool has_typed;	  /* contains typed events */
	uint8_t *data;	  /* placing may modify it; NULL in the first pass, if it is not needed */
};

/* All threads with the same tid: the log has at most 16 buffers for it. */
struct xp_chunk_thread {
	int32_t tid;
	char name[16];	    /* the last one */
	uint64_t first_tsc; /* of the first chunk */
	uint64_t chunks;
	uint64_t chunk_bytes;
	uint32_t chunk_bytes_max;
};

/* The sums. All zero: empty. */
struct xp_chunk_log {
	struct xp_chunk_thread *threads; /* in the order of their first chunks */
	size_t thread_count;
	size_t thread_room;
	struct xp_u64_map by_tid; /* -> threads */
	bool has_typed;
	uint16_t fdr_version; /* set by xp_chunk_log_write(), as is file_bytes */
	uint64_t file_bytes;  /* size of the log, including holes */
};

/* Adds a chunk to the sums. Returns 0 or -ENOMEM. */
int xp_chunk_log_add(struct xp_chunk_log *log, const struct xp_chunk *chunk);
void xp_chunk_log_clear(struct xp_chunk_log *log);

struct xp_chunk_source {
	/* Gets the next chunk, valid until the next call. Returns 1, 0 at the end, or -errno. */
	int (*next)(void *arg, struct xp_chunk *chunk);
	/* Frees disk space for the log, see xp_fdr_layout_new(). May be NULL. */
	int (*free_space)(void *arg);
	void *arg;
};

/*
 * Writes the log to fd, an empty file, with exactly the chunks that were added. Returns -EBADMSG if a chunk is of
 * another thread, -EINVAL if the sizes differ from the sums, or the error of the source or of writing.
 */
int xp_chunk_log_write(struct xp_chunk_log *log, int fd, const struct xp_log_info *info,
		       const struct xp_chunk_source *source);

#endif
