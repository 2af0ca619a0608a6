// SPDX-License-Identifier: BSD-2-Clause
#include "option_parts.h"

#include <errno.h>

#include "base/text.h"
#include "base/util.h"

static int check_samples(const struct xp_options *options)
{
	if (options->cpus && !options->all)
		return xp_fail(-EINVAL, "--cpu requires --all");
	if (options->off_cpu.given && options->no_samples)
		return xp_fail(-EINVAL,
			       "--off-cpu cannot be used with --no-samples: waits are stored with the samples");
	if (options->no_samples && (options->all || options->tid))
		return xp_fail(-EINVAL, "--no-samples cannot be used with --all or --tid, which record only samples; "
					"to record calls, use -p PID");
	if (options->compress && options->no_compression)
		return xp_fail(-EINVAL, "--compress cannot be used with --no-compression");
	return 0;
}

static int check_push(const struct xp_options *options)
{
	if (!options->push && (options->push_auth || options->labels.count))
		return xp_fail(-EINVAL, "--%s requires --push", options->push_auth ? "push-auth" : "label");
	if (options->push && options->dry_run)
		return xp_fail(-EINVAL, "--push cannot be used with --dry-run, which records nothing");
	return 0;
}

/* Functions without sleds are recorded where they are patched: in targets, but not in their children. */
static int check_functions(const struct xp_options *options)
{
	bool names_object = false;

	for (size_t i = 0; i < options->functions.count; i++)
		names_object |=
		    xp_text_object_end(options->functions.texts[i] + (options->functions.texts[i][0] == '!')) != NULL;
	if (names_object && (options->exec_path || options->follow || options->no_sleds || options->max_overhead > 0 ||
			     options->call_mode == XP_CALL_MODE_OPTION_PROBE))
		return xp_fail(-EINVAL, "--functions OBJECT:GLOB cannot be used with --follow, --exec, --no-sleds, "
					"--max-overhead or --call-mode probe");
	return 0;
}

static int check_rotate(const struct xp_options *options)
{
	if (!options->rotate.given)
		return options->keep.given ? xp_fail(-EINVAL, "--keep requires --rotate") : 0;
	if (options->flight_bytes || options->max_overhead > 0)
		return xp_fail(-EINVAL, "--rotate cannot be used with --flight or --max-overhead");
	if (options->max_bytes || options->dry_run || options->open)
		return xp_fail(-EINVAL, "--rotate cannot be used with --max-size, --dry-run or --open");
	return 0;
}

int xp_option_record_check(struct xp_options *options, bool separated)
{
	int targets =
	    !!options->pids.count + !!options->exec_path + !!options->operand_count + options->all + !!options->tid;

	if (options->operand_count && !separated)
		return xp_fail(-EINVAL,
			       "unexpected '%s'; a process is given by -p PID, a command to start by -- CMD [ARG...]",
			       options->operands[0]);
	if (targets != 1)
		return xp_fail(-EINVAL, "%s; give exactly one of -p PID, -t TID, -a, --exec PATH or -- CMD [ARG...]",
			       targets ? "more than one target" : "no target");
	if (options->dry_run && options->operand_count)
		return xp_fail(-EINVAL, "--dry-run cannot be used with CMD, which it does not start; give -p PID, -t "
					"TID, -a or --exec PATH");
	if (options->no_sleds && options->no_samples)
		return xp_fail(-EINVAL, "--no-sleds cannot be used with --no-samples: nothing would be recorded");
	if (options->no_sleds && options->exec_path)
		return xp_fail(-EINVAL, "--no-sleds cannot be used with --exec, which records only calls");
	if (options->max_overhead > 0 && (options->no_sleds || options->all || options->tid))
		return xp_fail(-EINVAL,
			       "--max-overhead cannot be used with --no-sleds, --all or --tid, which record no calls");
	if (options->max_overhead > 0 && options->call_mode == XP_CALL_MODE_OPTION_PROBE)
		return xp_fail(-EINVAL,
			       "--max-overhead cannot be used with --call-mode probe: it requires patched sleds");
	if (options->flight_bytes && (options->no_sleds || options->all || options->tid))
		return xp_fail(-EINVAL,
			       "--flight cannot be used with --no-sleds, --all or --tid, which record no calls");
	if (options->min_duration_ns && (options->no_sleds || options->all || options->tid))
		return xp_fail(-EINVAL,
			       "--min-duration cannot be used with --no-sleds, --all or --tid, which record no calls");
	if (xp_option_triggers_check(options) || check_rotate(options))
		return -EINVAL;
	if (check_samples(options) || check_functions(options) || check_push(options))
		return -EINVAL;
	if (options->operand_count) {
		options->child_argv = options->operands;
		options->operands = NULL;
		options->operand_count = 0;
	}
	return 0;
}
