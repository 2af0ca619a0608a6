/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes a model of the calls in the FDR logs of a recording: for each stack of open calls, how often its innermost
 * function was called, and the time that these calls spent in it outside of their own calls.
 *
 * Calls are matched as by fdr_calls.h: those without an exit are counted, but have no time. With a window of time,
 * calls that begin in it are counted, and of all calls the time in it.
 *
 * Memory: 32 bytes per open call, up to XP_MODEL_CALLS_OPEN_MAX, beside the model, however long the logs are.
 */
#ifndef XPROF_REPORT_MODEL_CALLS_H
#define XPROF_REPORT_MODEL_CALLS_H

#include "report/model_samples.h"

/* Calls that are open at the same time, of all threads; further calls are counted as dropped. */
#define XP_MODEL_CALLS_OPEN_MAX (4u << 20)

/*
 * The TSC that selected times count from: where no manifest tells the start, that of the first record of all logs. 0:
 * none is selected, or no log can be read.
 */
uint64_t xp_model_calls_start(const struct xp_model_source *source);

/* Like xp_model_read_samples(). Never returns -ENODATA. */
int xp_model_read_calls(struct xp_model *model, const struct xp_model_source *source, bool *broken);

#endif
