/* SPDX-License-Identifier: BSD-2-Clause */
/* The samples of gperftools profiles, for a model. They distinguish processes, not threads. */
#ifndef XPROF_MODEL_SAMPLES_GPERF_H
#define XPROF_MODEL_SAMPLES_GPERF_H

#include "model/read_samples.h"

/*
 * Adds the selected samples of all profiles to the model, up to a violation in each. *broken: one cannot be read; that
 * is reported. Returns 0 or -ENOMEM.
 */
int xp_gperf_samples_add(struct xp_model *model, const struct xp_model_source *source, bool *broken);

#endif
