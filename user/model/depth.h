/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits the depth of exported stacks. Formats repeat the callers of each stack, so a recursion of depth n, a log of n
 * records, would become n * n / 2 frames. A stack beyond the limit keeps its outermost functions, a frame "[deeper]",
 * and its innermost function. So each value still counts for its function and for main().
 */
#ifndef XPROF_MODEL_DEPTH_H
#define XPROF_MODEL_DEPTH_H

#include "model/model.h"

#define XP_MODEL_DEPTH_MAX 1024 /* functions of a written stack above "[deeper]" */
#define XP_MODEL_DEPTH_MIN 128	/* cuts no stack of samples: kernel stacks have at most 127 frames */
#define XP_MODEL_WRITTEN_MAX                                                                                           \
	(UINT64_C(64) << 20) /* frames of all samples: beyond, their depth is halved, down to the least */

#define XP_MODEL_DEEPER "[deeper]"

struct xp_model_cut {
	uint32_t depth;	  /* number of functions that stacks keep */
	uint64_t samples; /* number of samples or calls with deeper stacks */
};

/* Call it last, after names are found and functions selected. Returns 0 or -ENOMEM. */
int xp_model_cut_depth(struct xp_model *model, struct xp_model_cut *cut);

#endif
