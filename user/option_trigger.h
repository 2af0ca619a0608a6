/* SPDX-License-Identifier: BSD-2-Clause */
/* --trigger: calls that make a flight recorder write what it has. */
#ifndef XPROF_OPTION_TRIGGER_H
#define XPROF_OPTION_TRIGGER_H

#include "options.h"

/* Adds 'GLOB>TIME'. Returns 0 or -errno: -EINVAL if it is none, or one too many, which was printed; -ENOMEM. */
int xp_option_trigger_add(struct xp_trigger_list *triggers, const char *text);
/* Checks them against the other options. Returns 0 or -EINVAL, which was printed. */
int xp_option_triggers_check(const struct xp_options *options);
void xp_option_triggers_free(struct xp_trigger_list *triggers);

#endif
