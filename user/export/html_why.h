/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the explanation of a recording into its page: the sentences of the terminal, locks, and when slow calls were.
 */
#ifndef XPROF_EXPORT_HTML_WHY_H
#define XPROF_EXPORT_HTML_WHY_H

#include <stdio.h>

#include "explain/explain.h"

/* Writes a member of an object of JSON, from a comma on. Errors show in ferror(out). */
void xp_html_put_why(FILE *out, const struct xp_explanation *why);

/* Writes a view: the tree of typical calls and slow ones, both of which there are. Returns 0 or -ENOMEM. */
int xp_html_put_tail(FILE *out, const struct xp_call_tree *tree);

#endif
