/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints a call tree as text. */
#ifndef XPROF_REPORT_TREE_TEXT_H
#define XPROF_REPORT_TREE_TEXT_H

#include "model/tree.h"
#include "report/report_print.h"

/*
 * Prints a line per node: its share of the whole, the share of the node itself (not in a tree of callers), and the
 * function. A chain of functions without a branch has the same indentation. Sums up nodes below 0.5 %, unless
 * style->limit is UINT64_MAX. Returns 0 or -ENOMEM. ferror(out) reports errors of writing.
 */
int xp_report_print_tree(FILE *out, const struct xp_model *model, const struct xp_model_tree *tree,
			 const struct xp_report_style *style);

#endif
