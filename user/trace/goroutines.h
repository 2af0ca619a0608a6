/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The goroutines of a process that are in calls of recorded Go functions. A goroutine runs on one thread after the
 * other, and its stack moves. So each goroutine is a struct xp_thread of its own, with a thread ID that no task has,
 * and its shadow stack is of slots relative to the upper end of its stack. The address of Go's struct g identifies it.
 * Go uses these structs again for later goroutines.
 *
 * A process may have a million goroutines. From GOROUTINES_MANY on, a goroutine without open calls passes its struct
 * xp_thread on to the next goroutine. Beyond XP_STACKS_MAX, calls of further goroutines are counted as too deep.
 */
#ifndef XPROF_TRACE_GOROUTINES_H
#define XPROF_TRACE_GOROUTINES_H

#include "trace/process.h"

/*
 * Finds the goroutine of an event of a Go function (XP_EVENT_GO_ENTRY, XP_EVENT_GO_EXIT); adds it if need be. Returns
 * 0, -ENOENT if the process is not known, -ENOBUFS beyond the limit, or -ENOMEM.
 */
int xp_goroutine_find(struct xp_processes *processes, const struct xp_event_go *event, struct xp_thread **goroutine);

#endif
