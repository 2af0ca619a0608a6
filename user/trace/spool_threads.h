/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads of a spool by tid, with the sums that the layout of the log needs. Private to spool*.c. */
#ifndef XPROF_TRACE_SPOOL_THREADS_H
#define XPROF_TRACE_SPOOL_THREADS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct xp_spool_frame;

struct xp_spool_thread {
	int32_t tid;
	char name[16]; /* the last one */
	uint64_t first_tsc;
	uint64_t chunk_bytes;
	uint64_t chunks;
	uint32_t chunk_bytes_max;
};

/* All zero: empty. */
struct xp_spool_threads {
	struct xp_spool_thread *all; /* in the order of their first frames */
	size_t count;
	size_t room;
	uint32_t *slots;   /* hash table by tid: index + 1, 0 if free */
	size_t slot_count; /* a power of two, at least twice room */
};

/* Adds a frame to the sums. Returns 0 or -ENOMEM. */
int xp_spool_threads_add(struct xp_spool_threads *threads, const struct xp_spool_frame *frame);
/* The index of tid in all, or -1 if it has no frame. */
ssize_t xp_spool_threads_find(const struct xp_spool_threads *threads, int32_t tid);
void xp_spool_threads_clear(struct xp_spool_threads *threads);

#endif
