/* SPDX-License-Identifier: BSD-2-Clause */
/* Long text for the standard output: through a pager on a terminal, plainly everywhere else. */
#ifndef XPROF_PAGER_H
#define XPROF_PAGER_H

#include <stdbool.h>
#include <stddef.h>

/* What the standard output is. */
struct xp_terminal {
	bool is_terminal;
	bool colour;	      /* it is one that shows colours, and NO_COLOR is not set */
	unsigned int columns; /* 0: not known, or no terminal */
};

void xp_terminal_look(struct xp_terminal *terminal);

/*
 * Shows the text. The pager is $PAGER, else less, which ends at once when the text fits the screen; none when PAGER is
 * empty or "cat", or when it does not start. Returns 0 or -errno of writing; a pager that is left early is no error.
 */
int xp_page(const struct xp_terminal *terminal, const char *text, size_t bytes);

#endif
