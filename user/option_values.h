/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of an option to its member in struct xp_options. */
#ifndef XPROF_OPTION_VALUES_H
#define XPROF_OPTION_VALUES_H

#include "options.h"

/* text: NULL for a flag, and for an optional value that is omitted. Returns 0 or -errno: -EINVAL if it is no value of
 * this option, which was printed; -ENOMEM. */
int xp_option_set(struct xp_options *options, const struct xp_option *option, const char *text);

#endif
