/* SPDX-License-Identifier: BSD-2-Clause */
/* Long text on standard output: through a pager if that is a terminal, directly otherwise. */
#ifndef XPROF_REPORT_PAGER_H
#define XPROF_REPORT_PAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The kind of standard output. */
struct xp_terminal {
	bool is_terminal;
	bool colour;	      /* it supports colours, and NO_COLOR is not set */
	unsigned int columns; /* 0: unknown, or not a terminal */
};

/* A page of output. On a terminal, it is kept until it is shown as a whole. */
struct xp_page {
	struct xp_terminal terminal;
	FILE *out; /* to print to */
	/* private */
	char *text;
	size_t bytes;
	int err; /* of writing */
};

/*
 * Begins a page. is_data: it is for programs, so it has neither colours nor a pager, also on a terminal. Returns 0 or
 * -ENOMEM; the caller calls xp_page_end() after 0 only.
 */
int xp_page_begin(struct xp_page *page, bool is_data);

/*
 * Shows what was printed, unless err is an error of printing it, which is returned. The pager is $PAGER or else less,
 * which exits immediately if the text fits on the screen. No pager is used if PAGER is empty or "cat", or if it does
 * not start. Returns 0, -ENOMEM or an error of writing; leaving the pager early is no error.
 */
int xp_page_end(struct xp_page *page, int err);

#endif
