/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints long text: through a pager if standard output is a terminal, otherwise directly. */
#ifndef XPROF_REPORT_PAGER_H
#define XPROF_REPORT_PAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The kind of standard output. */
struct xp_terminal {
	bool is_terminal;
	bool colour;	      /* the terminal supports colours, and NO_COLOR is not set */
	unsigned int columns; /* 0: unknown, or not a terminal */
};

/* The output of a command. For a terminal, it is kept in memory until it is complete. */
struct xp_page {
	struct xp_terminal terminal;
	FILE *out; /* the caller prints to this file */
	/* private */
	char *text;
	size_t bytes;
	int err; /* error of writing */
};

/*
 * Starts a page. is_data: the output is for programs, so it has neither colours nor a pager, even on a terminal.
 * Returns 0 or -ENOMEM. The caller calls xp_page_end() only after 0.
 */
int xp_page_begin(struct xp_page *page, bool is_data);

/*
 * Shows the page. err: an error of the caller; the function then shows nothing and returns err. Uses the pager $PAGER,
 * or less, which exits immediately if the text fits on the screen. Uses no pager if PAGER is empty or "cat", or if the
 * pager does not start. Returns 0, -ENOMEM or an error of writing. It is no error if the user leaves the pager early.
 */
int xp_page_end(struct xp_page *page, int err);

#endif
