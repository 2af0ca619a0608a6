/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes a model of the calls in the FDR logs of a recording: for each stack of open calls, how often its innermost
 * function was called, and the time that these calls spent in it outside of their own calls.
 *
 * Calls without an exit are counted, but have no time. With a window of time, calls that begin in it are counted, and
 * of all calls the time in it.
 *
 * Memory: that of log_walk.h, beside the model, however long the logs are.
 */
#ifndef XPROF_MODEL_CALLS_H
#define XPROF_MODEL_CALLS_H

#include "model/read_samples.h"

/* Like xp_model_read_samples(). Never returns -ENODATA. */
int xp_model_read_calls(struct xp_model *model, const struct xp_model_source *source, bool *broken);

#endif
