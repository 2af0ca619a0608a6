/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The only SIGBUS handler of xprof. It calls the registered functions in the order of enum xp_bus_error_kind. If none
 * returns true, xprof dies of the signal, as without a handler.
 */
#ifndef XPROF_BASE_BUS_ERROR_H
#define XPROF_BASE_BUS_ERROR_H

#include <signal.h>
#include <stdbool.h>

/* The handler calls the functions in this order. */
enum xp_bus_error_kind {
	XP_BUS_SHARED_PAGES, /* accepts only its own addresses */
	XP_BUS_FILE_VIEWS,   /* accepts all other addresses */
	XP_BUS_KINDS,
};

/*
 * Registers repair() for this kind of memory, and installs the handler. repair() returns true if the handler must
 * repeat the access. Returns 0 or -errno.
 */
int xp_bus_error_ask(enum xp_bus_error_kind kind, bool (*repair)(const siginfo_t *info));

#endif
