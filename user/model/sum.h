/* SPDX-License-Identifier: BSD-2-Clause */
/* Adds up several models: one model for several parts of a recording (part_list.h). */
#ifndef XPROF_MODEL_SUM_H
#define XPROF_MODEL_SUM_H

#include "model/read_samples.h"

/*
 * Adds the samples, calls and waits of a named model to a model of the same kind, which is initialized, and needs no
 * naming. Code is the same if its names are. Copies all texts, so that the part can be freed. Times of samples and
 * waits are those of the part, and durations of calls are not added. Returns 0 or -ENOMEM; values beyond a limit count
 * as dropped.
 */
int xp_model_add(struct xp_model *sum, const struct xp_model *part);

/*
 * Reads the samples, or the calls, of all directories of all->recorded, with the times since the start of the first
 * one. The model, which is empty, tells what it keeps of them. detail: of its names. Returns as
 * xp_model_read_samples().
 */
int xp_model_read_parts(struct xp_model *model, enum xp_name_detail detail, const struct xp_model_source *all,
			bool *broken);

#endif
