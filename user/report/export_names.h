/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of functions as exports show them. */
#ifndef XPROF_REPORT_EXPORT_NAMES_H
#define XPROF_REPORT_EXPORT_NAMES_H

#include "elf/demangle.h"
#include "report/model.h"

/* Returns the function's name, or a shorter one (xp_short_name()) in to. Only mangled names have anything to shorten.
 */
static inline const char *xp_export_name(char *to, size_t size, const struct xp_model_function *function, bool full)
{
	if (full || function->name == function->symbol)
		return function->name;
	xp_short_name(to, size, function->name);
	return to;
}

#endif
