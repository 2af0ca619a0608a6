/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The goroutines of a process with open calls of recorded Go functions.
 *
 * A goroutine runs on different threads, and its stack moves. So each goroutine is a struct xp_thread of its own, with
 * a thread ID that no task has, and its shadow stack contains slots relative to the upper end of its stack. The address
 * of Go's struct g identifies the goroutine. Go reuses these structs for later goroutines.
 *
 * A process may have a million goroutines. If there are more than GOROUTINES_MANY, a goroutine without open calls
 * passes its struct xp_thread to the next goroutine. Beyond XP_STACKS_MAX, calls of further goroutines are counted as
 * too deep.
 */
#ifndef XPROF_TRACE_GOROUTINES_H
#define XPROF_TRACE_GOROUTINES_H

#include "trace/process.h"

/*
 * Finds or adds the goroutine of an event of a Go function (XP_EVENT_GO_ENTRY, XP_EVENT_GO_EXIT). Returns 0, -ENOENT if
 * the process is unknown, -ENOBUFS beyond the limit, or -ENOMEM.
 */
int xp_goroutine_find(struct xp_processes *processes, const struct xp_event_go *event, struct xp_thread **goroutine);

#endif
