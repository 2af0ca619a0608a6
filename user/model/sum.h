/* SPDX-License-Identifier: BSD-2-Clause */
/* The sum of several models: one model of several parts of a recording (part_list.h). */
#ifndef XPROF_MODEL_SUM_H
#define XPROF_MODEL_SUM_H

#include "model/model.h"

/*
 * Adds the samples, calls and waits of a named model to a model of the same kind, which is initialized, and needs no
 * naming. Code is the same if its names are. Copies all texts, so that the part can be freed. Times and durations of
 * calls are not added. Returns 0 or -ENOMEM; values beyond a limit count as dropped.
 */
int xp_model_add(struct xp_model *sum, const struct xp_model *part);

#endif
