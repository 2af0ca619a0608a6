/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints a call tree as text. */
#ifndef XPROF_REPORT_TREE_TEXT_H
#define XPROF_REPORT_TREE_TEXT_H

#include "model/tree.h"
#include "report/report_print.h"

/*
 * Prints the tree: the share of the whole, of the node itself unless the tree is of callers, and the functions. Those
 * without a branch follow each other at one depth. What is less than 0.5 % is summed up, unless style->limit is
 * UINT64_MAX. Returns 0 or -ENOMEM; write errors show in ferror(out).
 */
int xp_report_print_tree(FILE *out, const struct xp_model *model, const struct xp_model_tree *tree,
			 const struct xp_report_style *style);

#endif
