/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of exports and reports. These return 0, or -EINVAL on a usage error, which is already printed. */
#ifndef XPROF_OPTION_EXPORT_H
#define XPROF_OPTION_EXPORT_H

#include "options.h"

/* Of a recording: sets the flags of the formats in the list of --export. */
int xp_option_export_list(struct xp_options *options);
/* Of `xprof export`. */
int xp_option_export_check(const struct xp_options *options);
/* Of `xprof report`. */
int xp_option_report_check(const struct xp_options *options);

#endif
