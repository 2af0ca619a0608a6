/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports whether a recording is about to end, to steps that may take long: in xprof itself, and in the tasks that it
 * creates (shield.h), which share its memory but not its signals.
 */
#ifndef XPROF_BASE_INTERRUPT_H
#define XPROF_BASE_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

/* timeout(1) signals its child, then the group of the child. Signals that arrive within this time count as one. */
#define XP_INTERRUPT_APART_NS 1000000000ull

/*
 * Call this once, after blocking the signals that end a recording: SIGTERM, SIGHUP, and SIGINT unless SIGINT is for the
 * started command. Before this call, and where /proc cannot be read, xp_interrupted() returns false.
 */
void xp_interrupt_init(bool with_sigint);
/*
 * Call this when the recording has ended. From then on, a thread takes the signals, so that they interrupt no system
 * call. asked_ns: when a signal ended the recording (CLOCK_MONOTONIC); 0: something else ended it, so that the next
 * signal is the first one. A further signal makes xp_interrupted() return true. Where no thread can be created, the
 * signals stay pending.
 */
void xp_interrupt_watch(uint64_t asked_ns);
/* After xp_interrupt_watch(): a further signal ends xprof, as does one that has arrived already. */
void xp_interrupt_abort_by_next(void);
/* After xp_interrupt_abort_by_next(): the next signal, or the first, only makes xp_interrupted() return true. */
void xp_interrupt_tell_next(void);

/* Sets the time (CLOCK_MONOTONIC, ns) at which the recording ends as if interrupted; 0: never. */
void xp_interrupt_set_deadline(uint64_t deadline_ns);

/*
 * True if one of these signals is pending, if xp_interrupt_watch() says so, if the deadline has passed, or if xprof was
 * killed and this is a task that outlived it. Takes about 5 us, so do not call it once for each of a million items. May
 * be called from any thread or task.
 */
bool xp_interrupted(void);

#endif
