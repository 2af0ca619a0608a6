/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes a comparison: as text, JSON, folded stacks or a page. Errors show in ferror(out), or as -ENOMEM. */
#ifndef XPROF_DIFF_OUT_H
#define XPROF_DIFF_OUT_H

#include <stdio.h>

#include "diff/diff.h"

struct xp_diff_style {
	bool colour;
	unsigned int columns; /* of the terminal: longer names are cut; 0: no limit */
	uint64_t limit;	      /* rows of a table */
};

/* Of samples, of calls, or both. */
struct xp_diff_pair {
	const struct xp_diff *all[2];
	size_t count;
};

void xp_diff_print(FILE *out, const struct xp_diff_pair *pair, const struct xp_diff_style *style);

/* See xprof-diff(1), JSON. */
int xp_diff_json(FILE *out, const struct xp_diff_pair *pair);

/*
 * A line for each stack: the stack as in export/folded.c, a number of A, a number of B, as difffolded.pl and
 * inferno-diff-folded write them. B's are its samples, or the ns in its calls; A's are scaled to the same unit: to
 * as many samples as B has, or per second, to the length and the rate of B.
 */
int xp_diff_folded(FILE *out, const struct xp_diff *diff);

int xp_diff_html(FILE *out, const struct xp_diff_pair *pair);

#endif
