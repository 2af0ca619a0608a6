/* SPDX-License-Identifier: BSD-2-Clause */
/* Formats functions of a log, and calls of a flight recorder, for messages. */
#ifndef XPROF_RECORD_CALLS_TEXT_H
#define XPROF_RECORD_CALLS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "sled/object.h"
#include "trace/process.h"

/* Returns the symbol of a function; NULL: unknown. */
const char *xp_function_symbol(const struct xp_functions *functions, uint32_t fn_id);

/* Formats the short name of the function with this ID in the binary, or "function ID". Returns to->text. */
const char *xp_object_function_text(struct xp_short_text *to, const struct xp_object *object, uint32_t id);

#define XP_FLIGHT_TEXT_BYTES (6 * XP_SHORT_TEXT_BYTES)

/*
 * Describes the end of a flight recorder's log. If a trigger caused the log, describes the call: "handle took 61.2 ms,
 * called by serve (--trigger 'handle>50ms')". Otherwise describes the open calls of a thread: " in f, called by main",
 * or of several threads: " in f (thread 12), in g (thread 13) and in calls of 3 more threads". "" if nothing is known.
 */
void xp_flight_text(char *to, size_t size, const struct xp_process *process, const struct xp_flight_log *log);

#endif
