/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes a model of the calls in the FDR logs of a recording: for each stack of open calls, the number of calls of its
 * innermost function, and their time without their callees.
 *
 * Calls without an exit are counted, but have no time. With a time window, calls that begin in the window are counted,
 * and the time is that of all calls inside the window.
 *
 * Memory: the model and that of log_walk.h, independent of the length of the logs.
 */
#ifndef XPROF_MODEL_CALLS_H
#define XPROF_MODEL_CALLS_H

#include "model/read_samples.h"

/* Like xp_model_read_samples(). Never returns -ENODATA. */
int xp_model_read_calls(struct xp_model *model, const struct xp_model_source *source, bool *broken);

#endif
