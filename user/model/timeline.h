/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the calls and the events in the FDR logs of a recording as the slices and instants of a timeline.
 *
 * The slices of a function have the same total duration as in `llvm-xray account`. A call without an exit ends with its
 * caller, or when its program was replaced by exec, and its slice is marked; at the end of the recording, it stays
 * open. With a time window, slices are cut at its start and end.
 *
 * Memory: that of log_walk.h and log_functions.h.
 */
#ifndef XPROF_MODEL_TIMELINE_H
#define XPROF_MODEL_TIMELINE_H

#include "format/perfetto.h"
#include "model/read_samples.h"

/* As xp_log_walk(). *written: calls and events. Returns 0, -ENOMEM, -EAGAIN, or an error of writing. */
int xp_timeline_write_calls(struct xp_perfetto *perfetto, const struct xp_model_source *source, uint64_t *written,
			    bool *broken);

#endif
