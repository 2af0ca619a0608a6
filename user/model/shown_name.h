/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of functions as they are shown. */
#ifndef XPROF_MODEL_SHOWN_NAME_H
#define XPROF_MODEL_SHOWN_NAME_H

#include "elf/demangle.h"
#include "model/model.h"

/* Returns the function's name, or a shorter one (xp_short_name()) in to. Only mangled names have anything to shorten.
 */
static inline const char *xp_shown_name(char *to, size_t size, const struct xp_model_function *function, bool full)
{
	if (full || function->name == function->symbol)
		return function->name;
	xp_short_name(to, size, function->name);
	return to;
}

#endif
