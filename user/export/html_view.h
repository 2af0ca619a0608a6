/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pieces of an HTML page (html_page.h) with trees of functions in it, as JSON. The trees are numbers in base64 (see
 * page_data.js): a node takes about 6 bytes.
 *
 *	node: 0 if a group, otherwise 1 + (2 * function + is_inlined); its number - its parent's; (not of the root)
 *	      self[0]; self[1] - self[0] * period, signed
 */
#ifndef XPROF_EXPORT_HTML_VIEW_H
#define XPROF_EXPORT_HTML_VIEW_H

#include <stdio.h>

#include "model/model.h"
#include "model/tree.h"

#define XP_HTML_NODES_MAX 30000 /* of a tree; of 8 bytes */

/* Writes the page before its data, and after it. */
void xp_html_put_start(FILE *out);
void xp_html_put_end(FILE *out);

/* Writes a tree as members of an object of JSON, from a comma on. Returns 0 or -ENOMEM. */
int xp_html_put_view(FILE *out, const struct xp_model *model, const struct xp_model_tree *tree, uint64_t period);

#endif
