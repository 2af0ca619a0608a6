/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of option_*.c that options.c uses. Each returns 0 or -errno: -EINVAL on a usage error, which is
 * printed; -ENOMEM.
 */
#ifndef XPROF_OPTION_PARTS_H
#define XPROF_OPTION_PARTS_H

#include "options.h"

/* option_values.c: text to the option's member. NULL for a flag, and for an optional value that is omitted. */
int xp_option_set(struct xp_options *options, const struct xp_option *option, const char *text);

/*
 * option_pids.c: adds PIDs, separated by commas. with_names: also the name of a running process, if no other process
 * has that name.
 */
int xp_option_pids_set(struct xp_pid_list *list, const char *text, bool with_names);

/*
 * option_checks.c: options that exclude or require each other. separated: the command to start follows "--". Its words
 * move from the operands to child_argv.
 */
int xp_option_record_check(struct xp_options *options, bool separated);
int xp_option_export_check(const struct xp_options *options);
int xp_option_report_check(const struct xp_options *options);

/* option_trigger.c: adds a --trigger, 'GLOB>TIME'; checks them against the other options. */
int xp_option_trigger_add(struct xp_trigger_list *triggers, const char *text);
int xp_option_triggers_check(const struct xp_options *options);
void xp_option_triggers_free(struct xp_trigger_list *triggers);

#endif
