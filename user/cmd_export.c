// SPDX-License-Identifier: BSD-2-Clause
/* `xprof export DIR|FILE`: writes a recording in the formats of other programs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands.h"
#include "elf/function_patterns.h"
#include "export/export.h"
#include "export/output.h"
#include "model/part_list.h"

/* Allows downloads of debug information only with --debuginfod. */
static int set_up_debuginfod(const struct xp_options *options)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	if (!options->debuginfod) {
		unsetenv("DEBUGINFOD_URLS");
		return 0;
	}
	if (urls && *urls)
		return 0;
	return xp_fail(-EINVAL, "--debuginfod needs the addresses of servers in DEBUGINFOD_URLS");
}

enum xp_exit xp_cmd_export(const struct xp_options *options)
{
	struct xp_pattern_uses *uses = xp_pattern_uses_new(options->functions.texts, options->functions.count);
	struct xp_part_list parts = { 0 };
	const struct xp_export_options how = {
		.formats = options->formats,
		.kind = options->waits ? XP_MODEL_WAITS : options->calls ? XP_MODEL_CALLS : XP_MODEL_SAMPLES,
		.has_by = options->by >= 0,
		.by = options->by >= 0 ? (enum xp_model_group)options->by : XP_MODEL_BY_PROCESS,
		.full_names = options->full_names,
		.output = options->export_path,
		.instr_map = options->instr_map,
		.select = {
			.pids = options->pids.pids,
			.pid_count = options->pids.count,
			.tid = options->tid,
			.comms = options->comms.texts,
			.comm_count = options->comms.count,
			.functions = options->functions.texts,
			.function_count = options->functions.count,
			.uses = uses,
		},
		.requests = options->requests.texts,
		.request_count = options->requests.count,
		/*
		 * With `record --export`, an empty export is not an error: the user cannot know in advance whether
		 * there will be samples.
		 */
		.may_be_empty = options->command == XP_CMD_RECORD,
	};
	int err = set_up_debuginfod(options);

	xp_export_file_end_by_signals();
	if (!err)
		err = xp_part_list_make(&parts, options->operands[0], options->times, (uint64_t)time(NULL));
	if (!err)
		err = xp_export(&parts, &how);
	xp_part_list_free(&parts);
	xp_pattern_uses_free(uses);
	if (err == -ENOMEM || err == -EAGAIN)
		xp_error("cannot export %s: %s", options->operands[0], strerror(-err));
	return err == -EINVAL ? XP_EXIT_USAGE : err ? XP_EXIT_FAILED : XP_EXIT_OK;
}
