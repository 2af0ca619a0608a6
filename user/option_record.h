/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of `xprof record` that exclude or need each other. */
#ifndef XPROF_OPTION_RECORD_H
#define XPROF_OPTION_RECORD_H

#include "options.h"

/*
 * separated: the command to start follows "--". Its words move from the operands to child_argv. Returns 0 or -EINVAL,
 * which was printed.
 */
int xp_option_record_check(struct xp_options *options, bool separated);

#endif
