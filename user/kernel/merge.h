/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Merges the events of all CPUs into one stream in TSC order.
 *
 * A pass reads the TSC (the mark), then snapshots all rings, then emits the events older than the mark, always the
 * oldest head of all rings. Events of one ring keep the ring's order, in which two threads that preempted each other
 * may be slightly out of TSC order. The order of one thread's events is exact:
 *
 *   Let r1 (on ring A) precede r2 (on ring B) in a thread. r1 was submitted before r2's program read the TSC. So if r2
 *   is older than the mark, r1 is in the snapshot of A. The events ahead of r1 in A were reserved, hence stamped,
 *   before r1 was submitted, hence before r2: all of them, and r1, are emitted before r2.
 *
 * An event that is reserved but not submitted (its program was preempted) blocks its ring and with it the pass; the
 * next pass continues there. The other rings continue without it only if it blocks for XP_MERGE_PATIENCE_NS, or if
 * another ring is more than half full. This bounds memory and delay, but may break the order of a thread.
 */
#ifndef XPROF_KERNEL_MERGE_H
#define XPROF_KERNEL_MERGE_H

#include "base/clock.h"
#include "event/arrival.h"
#include "kernel/rings.h"

#define XP_MERGE_PATIENCE_NS 200000000ull

struct xp_merge;

/* Called with each event, in the order of time. An error ends the pass after this event. */
typedef int (*xp_merge_sink)(void *arg, const struct xp_arrival *arrival);

/* The caller keeps rings and clock, which must outlive the merge. Returns 0 or -ENOMEM. */
int xp_merge_new(struct xp_merge **merge, struct xp_rings *rings, const struct xp_clock *clock);
void xp_merge_free(struct xp_merge *merge);

/* Returns the fill level of the fullest ring in percent. */
unsigned int xp_merge_fill(struct xp_merge *merge);

/*
 * Runs one pass. mark: the TSC at the start of the pass. Other sources that must stay in step with the rings, such as
 * the side-band, are read after the mark and before this call: they then contain everything older than the mark. A long
 * pass ends early when the recording is to end (interrupt.h); xp_merge_drain() emits the rest. Returns how full the
 * fullest ring was at the start, in percent, or -errno: the sink's error, or -EBADMSG if a ring is corrupt.
 */
int xp_merge_pass(struct xp_merge *merge, uint64_t mark, xp_merge_sink sink, void *arg);

/*
 * Returns the mark of the last pass that was not ended by a busy event: all older events were emitted, except late
 * ones. Do not report anything later than this mark yet: events that wait for the busy event would arrive too late.
 */
uint64_t xp_merge_done_tsc(const struct xp_merge *merge);

/* Emits all remaining events. Call this after all programs are detached. Returns 0 or -errno. */
int xp_merge_drain(struct xp_merge *merge, xp_merge_sink sink, void *arg);

#endif
