/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The call rings that a killed xprof has left in a process: the calls that nobody has taken. The threads go on writing
 * until their rings are full; those of a flight recorder wrap, and have the newest calls. All that stands there may be
 * wrong: each number is checked, and the work is bounded.
 */
#ifndef XPROF_SLED_LEFT_RINGS_H
#define XPROF_SLED_LEFT_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sled/call_ring.h"

struct xp_left_rings;

/*
 * Finds the rings of a process, and keeps other recordings away from them. recording: whose rings, as in struct
 * xp_ring_owners; NULL: whoever's. Returns 0 or -errno with a sentence in why: -ENOENT if there are none, or those of
 * another recording; -ESRCH if the process has ended; -EBUSY if an xprof records it; -EACCES and others. The caller
 * frees.
 */
int xp_left_rings_open(struct xp_left_rings **left, pid_t pid, const uint64_t recording[2], char *why, size_t why_size);
/* NULL is allowed. */
void xp_left_rings_free(struct xp_left_rings *left);

struct xp_left_counts {
	uint64_t calls;	   /* records that were taken: entries and exits */
	uint64_t lost;	   /* reserved, and never committed */
	uint64_t unstored; /* taken by the xprof that was killed, and at most so many not on disk */
	bool wraps;	   /* they are those of a flight recorder */
	uint64_t overwritten;
	size_t threads;
	size_t full; /* threads whose ring was full: later calls are missing */
};

/* All calls that are left of a thread, oldest first. inside: it made calls before, which are not known. */
typedef int (*xp_left_rings_taker)(void *arg, pid_t tid, const struct xp_ring_call *calls, size_t count, bool inside);
/*
 * Takes a copy of all calls, thread by thread. No thread records there any more. take: returns 0 or an error, which
 * ends it. The process keeps the calls, so that they can be taken again if storing them fails.
 */
int xp_left_rings_take(struct xp_left_rings *left, xp_left_rings_taker take, void *arg, struct xp_left_counts *counts);
/* The calls are stored: the memory is for another recording. Its pages are given back with xp_left_rings_free(). */
void xp_left_rings_clear(struct xp_left_rings *left);
/*
 * The recording whose rings they are, as in struct xp_ring_owners: its number, and the path of its directory, of
 * XP_RING_DIRECTORY_BYTES and terminated. The process can have written anything there.
 */
void xp_left_rings_recording(const struct xp_left_rings *left, uint64_t recording[2], char *directory);
/* How many calls are there to take, as far as the process says the truth. */
uint64_t xp_left_rings_count(const struct xp_left_rings *left);

#endif
