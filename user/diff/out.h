/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes a comparison as text, JSON, folded stacks or an HTML page. Returns 0 or -ENOMEM; ferror(out) reports errors.
 */
#ifndef XPROF_DIFF_OUT_H
#define XPROF_DIFF_OUT_H

#include <stdio.h>

#include "diff/diff.h"

struct xp_diff_style {
	bool colour;
	unsigned int columns; /* columns of the terminal, to which names are shortened; 0: no limit */
	uint64_t limit;	      /* rows per table */
};

/* The comparisons of samples and of calls, or one of them. */
struct xp_diff_pair {
	struct xp_diff *all[2];
	size_t count;
};

void xp_diff_print(FILE *out, const struct xp_diff_pair *pair, const struct xp_diff_style *style);

/* xprof-diff(1), section JSON, describes the output. */
int xp_diff_json(FILE *out, const struct xp_diff_pair *pair);

/*
 * Writes a line per stack, like difffolded.pl and inferno-diff-folded: the stack as in export/folded.c, the value of A,
 * and the value of B. The value of B is its samples, or the ns in its calls. The value of A is scaled to the same unit:
 * to the total of B or, per second, to the length and the rate of B.
 */
int xp_diff_folded(FILE *out, const struct xp_diff *diff);

int xp_diff_html(FILE *out, const struct xp_diff_pair *pair);

#endif
