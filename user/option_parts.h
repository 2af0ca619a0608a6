/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of option_*.c that options.c uses. Each returns 0 or -errno: -EINVAL on a usage error, which is
 * printed; -ENOMEM.
 */
#ifndef XPROF_OPTION_PARTS_H
#define XPROF_OPTION_PARTS_H

#include "options.h"

/* option_values.c: parses the value of an option. text: NULL for a flag, or if an optional value is omitted. */
int xp_option_set(struct xp_options *options, const struct xp_option *option, const char *text);

/*
 * option_pids.c: adds PIDs, separated by commas. with_names: also accepts the name of a process, if only one process
 * has this name.
 */
int xp_option_pids_set(struct xp_pid_list *list, const char *text, bool with_names);

/*
 * option_checks.c: options that exclude or require each other. separated: the command to start follows "--". Its words
 * move from the operands to child_argv.
 */
int xp_option_record_check(struct xp_options *options, bool separated);
int xp_option_export_check(const struct xp_options *options);
int xp_option_report_check(const struct xp_options *options);

/* option_trigger.c: adds a --trigger 'GLOB>TIME', and checks the triggers against other options. */
int xp_option_trigger_add(struct xp_trigger_list *triggers, const char *text);
int xp_option_triggers_check(const struct xp_options *options);
void xp_option_triggers_free(struct xp_trigger_list *triggers);

#endif
