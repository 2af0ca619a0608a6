/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The only SIGBUS handler of xprof. It asks the owners of mapped memory: shared pages, then file views. If the address
 * belongs to neither, xprof dies of the signal, as without a handler.
 */
#ifndef XPROF_BASE_BUS_ERROR_H
#define XPROF_BASE_BUS_ERROR_H

#include <signal.h>
#include <stdbool.h>

/* In the order in which their functions are called. */
enum xp_bus_error_kind {
	XP_BUS_SHARED_PAGES, /* accepts only its own addresses */
	XP_BUS_FILE_VIEWS,   /* accepts all other addresses */
	XP_BUS_KINDS,
};

/*
 * Registers a function, which the signal handler calls. It returns true if the access must be repeated. Returns 0 or
 * -errno.
 */
int xp_bus_error_ask(enum xp_bus_error_kind kind, bool (*repair)(const siginfo_t *info));

#endif
