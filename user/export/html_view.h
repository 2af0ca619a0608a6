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

#define XP_HTML_NODES_MAX 20000 /* of a tree; of 8 bytes */

struct xp_html_view {
	FILE *out;
	const struct xp_model *model;
	uint64_t period; /* by which the second value is expected from the first */
	/* private */
	uint32_t *numbers;   /* of each function on the page, plus 1; 0: not there */
	uint32_t *functions; /* of the model, by their numbers on the page */
	uint32_t function_count;
};

/* Writes the page before its data, and after it. */
void xp_html_put_start(FILE *out);
void xp_html_put_end(FILE *out);

/*
 * Writes the functions of trees as members of an object of JSON, from a comma on. The caller sets the public members,
 * and calls xp_html_view_end(), also after an error. Returns 0 or -ENOMEM.
 */
int xp_html_view_begin(struct xp_html_view *view, const struct xp_model_tree *const *trees, size_t count);
/* Writes one of the trees likewise. */
void xp_html_put_tree(const struct xp_html_view *view, const struct xp_model_tree *tree);
void xp_html_view_end(struct xp_html_view *view);

#endif
