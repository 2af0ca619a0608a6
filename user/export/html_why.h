/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the explanation of a recording into its page: the sentences of the terminal, locks, and slow calls. */
#ifndef XPROF_EXPORT_HTML_WHY_H
#define XPROF_EXPORT_HTML_WHY_H

#include <stdio.h>

#include "explain/explain.h"

/* Writes a member of an object of JSON, from a comma on. Errors show in ferror(out). */
void xp_html_put_why(FILE *out, const struct xp_explanation *why);

/*
 * Writes a member with the longest calls of all threads: names of threads and functions, the number of all calls,
 * and for each of these, in the order of thread and begin,
 *
 *	1 if it is of the next thread, or 0; begin - that of the call before, signed; length; number of the function
 *
 * Writes nothing if there are none. Returns 0, -ENOMEM or -EAGAIN.
 */
#define XP_HTML_SLICES_MAX 40000 /* with 8 to 12 bytes each */
int xp_html_put_slices(FILE *out, struct xp_explanation *why, const struct xp_model_source *source);

/* Writes a view: the tree of typical calls and slow calls. Both must exist. Returns 0 or -ENOMEM. */
int xp_html_put_tail(FILE *out, const struct xp_call_tree *tree);

#endif
