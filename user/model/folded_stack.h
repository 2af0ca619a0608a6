/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Folded stacks, as flamegraph.pl, inferno, speedscope, Firefox Profiler and Perfetto read them: the functions of a
 * stack, root first, joined by semicolons. Names end in _[k] for kernel code, in _[j] for JIT code and in _[i] for
 * inlined code (Linux, tools/perf/scripts and stackcollapse-perf.pl --all).
 */
#ifndef XPROF_MODEL_FOLDED_STACK_H
#define XPROF_MODEL_FOLDED_STACK_H

#include <stdio.h>

#include "model/tree.h"

struct xp_folded {
	FILE *out;
	const struct xp_model *model;
	const struct xp_model_tree *tree;
	/* private */
	uint32_t *path; /* nodes from the leaf to the root */
	size_t path_room;
};

/* Writes the stack of a node, without its value. Returns 0 or -ENOMEM. */
int xp_folded_put(struct xp_folded *folded, uint32_t node);
void xp_folded_free(struct xp_folded *folded);

#endif
