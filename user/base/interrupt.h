/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a recording is to end: for steps that may take long, in xprof itself and in the tasks that it makes
 * (shield.h), which share its memory but not its signals.
 */
#ifndef XPROF_INTERRUPT_H
#define XPROF_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * To be called once, when the signals that end a recording are blocked: SIGTERM, SIGHUP, and SIGINT unless that is the
 * started command's. Before it, and where /proc cannot be read, nothing is ever interrupted.
 */
void xp_interrupt_init(bool with_sigint);
/* CLOCK_MONOTONIC, ns, at which steps before the recording are to end as if interrupted; 0: never. */
void xp_interrupt_set_deadline(uint64_t deadline_ns);

/*
 * Whether one of these signals waits to be taken, the deadline has passed, or xprof was killed and this is a task that
 * it has left. About 5 us: not to be asked for each of a million things. From any thread or task.
 */
bool xp_interrupted(void);
/* Whether it was the deadline. */
bool xp_interrupt_timed_out(void);

#endif
