/* SPDX-License-Identifier: BSD-2-Clause */
/* Long text on standard output: through a pager if that is a terminal, directly otherwise. */
#ifndef XPROF_REPORT_PAGER_H
#define XPROF_REPORT_PAGER_H

#include <stdbool.h>
#include <stddef.h>

/* The kind of standard output. */
struct xp_terminal {
	bool is_terminal;
	bool colour;	      /* it supports colours, and NO_COLOR is not set */
	unsigned int columns; /* 0: unknown, or not a terminal */
};

void xp_terminal_look(struct xp_terminal *terminal);

/*
 * Shows the text. The pager is $PAGER or else less, which exits at once if the text fits on the screen. No pager is
 * used if PAGER is empty or "cat", or if it does not start. Returns 0 or an error of writing; leaving the pager early
 * is no error.
 */
int xp_page(const struct xp_terminal *terminal, const char *text, size_t bytes);

#endif
