/* SPDX-License-Identifier: BSD-2-Clause */
/* The subcommands, one file cmd_NAME.c each. They print their own errors and return the exit code. */
#ifndef XPROF_COMMANDS_H
#define XPROF_COMMANDS_H

#include "base/util.h"
#include "options.h"

enum xp_exit xp_cmd_record(const struct xp_options *options);
enum xp_exit xp_cmd_report(const struct xp_options *options);
enum xp_exit xp_cmd_export(const struct xp_options *options);
enum xp_exit xp_cmd_view(const struct xp_options *options);
enum xp_exit xp_cmd_explain(const struct xp_options *options);
enum xp_exit xp_cmd_diff(const struct xp_options *options);
enum xp_exit xp_cmd_list(const struct xp_options *options);
enum xp_exit xp_cmd_recover(const struct xp_options *options);
enum xp_exit xp_cmd_restore(const struct xp_options *options);
enum xp_exit xp_cmd_doctor(const struct xp_options *options);
enum xp_exit xp_cmd_help(const struct xp_options *options);
enum xp_exit xp_cmd_version(const struct xp_options *options);

/*
 * Opens the page of a recording, recording.html, in the browser of the user behind sudo. Prints the path of the page if
 * there is no display, or if that user is root.
 */
enum xp_exit xp_view_open(const char *directory);

#endif
