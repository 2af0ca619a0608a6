/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of all CPUs -> one stream in TSC order.
 *
 * A pass takes the TSC (the mark), then snapshots all rings, then gives out the records older than the mark, always
 * the oldest head of all rings. Within a ring the order is that of the ring, in which two threads that preempted each
 * other may be a little out of TSC order. The order of one thread's records is exact:
 *
 *   Let r1 (on ring A) precede r2 (on ring B) in a thread. r1 was submitted before r2's program read the TSC. So when
 *   r2 is older than the mark, r1 is in the snapshot of A. And what stands before r1 in A was reserved, hence stamped,
 *   before r1 was submitted, hence before r2: all of it, and r1, goes out before r2.
 *
 * A record that is reserved but not submitted (its program was preempted) blocks its ring and with it the pass; the
 * next pass goes on there. Only when it blocks for XP_MERGE_PATIENCE_NS, or when another ring gets half full, do the
 * other rings go on without it: memory and delay are bounded, and the thread order may suffer (counted as `late`).
 */
#ifndef XPROF_MERGE_H
#define XPROF_MERGE_H

#include "base/clock.h"
#include "kernel/rings.h"

#define XP_MERGE_PATIENCE_NS 200000000ull

struct xp_merge;

/* Takes one record; it is valid during the call only. An error ends the pass after this record. */
typedef int (*xp_merge_sink)(void *arg, const struct xp_rec *rec, size_t size, unsigned int cpu, uint64_t tsc);

/* Both rings and clock stay the caller's and must outlive the merge. -ENOMEM. */
int xp_merge_new(struct xp_merge **merge, struct xp_rings *rings, const struct xp_clock *clock);
void xp_merge_free(struct xp_merge *merge);

/*
 * One pass. mark: the TSC when it was begun, taken before the call. What must be read in step with the rings (the
 * side-band) is read in between: it then has everything that is older than the mark. Returns the fill of the fullest
 * ring at its start, in percent, or a negative errno: the sink's, or -EBADMSG when a ring is broken.
 */
int xp_merge_pass(struct xp_merge *merge, uint64_t mark, xp_merge_sink sink, void *arg);

/*
 * The mark of the last pass that was not ended by a busy record: what is older has come, but for late records. What
 * happened after it must not be told yet, or records that wait behind the busy one would come too late for it.
 */
uint64_t xp_merge_done_tsc(const struct xp_merge *merge);

/* After all programs are detached: everything that is left. 0 or a negative errno. */
int xp_merge_drain(struct xp_merge *merge, xp_merge_sink sink, void *arg);

/* Records that came out behind a younger one of another ring because they were stuck for too long. */
uint64_t xp_merge_late(const struct xp_merge *merge);

#endif
