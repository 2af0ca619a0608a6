/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports to long steps whether the recording is about to end. Works in xprof and in the tasks of shield.h, which share
 * its memory but not its signals.
 */
#ifndef XPROF_BASE_INTERRUPT_H
#define XPROF_BASE_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Signals that arrive within this time count as one: timeout(1) signals its child, and then the process group of the
 * child.
 */
#define XP_INTERRUPT_APART_NS 1000000000ull

/*
 * Call this once, after blocking the signals that end a recording: SIGTERM; SIGINT, unless it is for the started
 * command; SIGHUP, unless it has another meaning. Before this call, and where /proc cannot be read, xp_interrupted()
 * returns false.
 */
void xp_interrupt_init(bool with_sigint, bool with_sighup);
/*
 * Call this when the recording has ended. It starts a thread that receives the signals, so that they interrupt no
 * system call. asked_ns: CLOCK_MONOTONIC of the signal that ended the recording, or 0 if no signal did. After that
 * first signal, a further one makes xp_interrupted() return true. If the thread cannot be created, the signals stay
 * pending.
 */
void xp_interrupt_watch(uint64_t asked_ns);
/* After xp_interrupt_watch(): makes a further signal end xprof, including one that has arrived already. */
void xp_interrupt_abort_by_next(void);
/*
 * After xp_interrupt_abort_by_next(): the next signal, even if it is the first one, does not end xprof, but makes
 * xp_interrupted() return true.
 */
void xp_interrupt_tell_next(void);

/* Call this in a child of fork(2): it ignores its parent's signals and deadline, and xp_interrupted() returns false. */
void xp_interrupt_leave(void);

/* Sets the time (CLOCK_MONOTONIC, ns) at which the recording ends as if interrupted; 0: never. */
void xp_interrupt_set_deadline(uint64_t deadline_ns);

/*
 * Returns true if one of these signals is pending, if a further signal has arrived after xp_interrupt_watch(), or if
 * the deadline has passed. Also returns true in a task whose xprof was killed. Costs about 5 us: do not call it per
 * item in a loop over a million items. Thread-safe.
 */
bool xp_interrupted(void);

#endif
