// SPDX-License-Identifier: BSD-2-Clause
/* Runs the command. */
#include <errno.h>

#include "commands.h"
#include "kernel/privilege.h"

/*
 * Returns whether the command needs privileges. The other commands and their children, such as a pager, run with only
 * the rights of the user.
 */
static bool needs_privilege(enum xp_command command)
{
	return command == XP_CMD_RECORD || command == XP_CMD_LIST || command == XP_CMD_RESTORE ||
	       command == XP_CMD_DOCTOR;
}

static enum xp_exit (*const commands[XP_COMMANDS])(const struct xp_options *) = {
	[XP_CMD_RECORD] = xp_cmd_record, [XP_CMD_REPORT] = xp_cmd_report,   [XP_CMD_EXPORT] = xp_cmd_export,
	[XP_CMD_VIEW] = xp_cmd_view,	 [XP_CMD_EXPLAIN] = xp_cmd_explain, [XP_CMD_DIFF] = xp_cmd_diff,
	[XP_CMD_LIST] = xp_cmd_list,	 [XP_CMD_RECOVER] = xp_cmd_recover, [XP_CMD_RESTORE] = xp_cmd_restore,
	[XP_CMD_DOCTOR] = xp_cmd_doctor, [XP_CMD_HELP] = xp_cmd_help,	    [XP_CMD_VERSION] = xp_cmd_version,
};

int main(int argc, char **argv)
{
	struct xp_options options;
	enum xp_exit code;
	int err;

	err = xp_options_parse(&options, argc, argv);
	if (err == -EINVAL) {
		code = XP_EXIT_USAGE;
	} else if (err) {
		xp_error("out of memory");
		code = XP_EXIT_FAILED;
	} else {
		if (options.quiet)
			xp_log_level = XP_LOG_QUIET;
		else if (options.verbose)
			xp_log_level = XP_LOG_VERBOSE;
		if (!needs_privilege(options.command))
			xp_privilege_drop();
		code = commands[options.command](&options);
	}
	xp_options_free(&options);
	return code;
}
