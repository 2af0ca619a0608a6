// SPDX-License-Identifier: BSD-2-Clause
#include "option_record.h"

#include <errno.h>

#include "base/util.h"
#include "option_trigger.h"

static int check_min_duration(const struct xp_options *options)
{
	if (options->min_duration_ns && (options->no_sleds || options->all || options->tid)) {
		xp_error("--min-duration drops calls of sleds, and there are none with --no-sleds, --all or --tid");
		return -EINVAL;
	}
	return 0;
}

static int check_samples(const struct xp_options *options)
{
	if (options->cpus && !options->all) {
		xp_error("--cpu goes with --all only");
		return -EINVAL;
	}
	if (options->off_cpu.given && options->no_samples) {
		xp_error("--off-cpu records stacks as samples do, which --no-samples omits");
		return -EINVAL;
	}
	if (options->no_samples && (options->all || options->tid)) {
		xp_error("--no-samples leaves nothing of --all or --tid, which only sample");
		return -EINVAL;
	}
	if (options->compress && options->no_compression) {
		xp_error("--compress and --no-compression exclude each other");
		return -EINVAL;
	}
	return 0;
}

int xp_option_record_check(struct xp_options *options, bool separated)
{
	int targets =
	    !!options->pids.count + !!options->exec_path + !!options->operand_count + options->all + !!options->tid;

	if (options->operand_count && !separated) {
		xp_error("unexpected '%s'; a process is given by -p PID, a command to start by -- CMD [ARG...]",
			 options->operands[0]);
		return -EINVAL;
	}
	if (targets != 1) {
		xp_error("%s; give exactly one of -p PID, -t TID, -a, --exec PATH or -- CMD [ARG...]",
			 targets ? "more than one target" : "no target");
		return -EINVAL;
	}
	if (options->dry_run && options->operand_count) {
		xp_error(
		    "--dry-run describes what runs, and starts no command: give -p PID, -t TID, -a or --exec PATH");
		return -EINVAL;
	}
	if (options->no_sleds && options->no_samples) {
		xp_error("--no-sleds and --no-samples together leave nothing to record");
		return -EINVAL;
	}
	if (options->no_sleds && options->exec_path) {
		xp_error("--no-sleds leaves nothing of --exec, which only records sleds");
		return -EINVAL;
	}
	if (options->max_overhead > 0 && (options->no_sleds || options->all || options->tid)) {
		xp_error("--max-overhead is for records of sleds, and there are none with --no-sleds, --all or --tid");
		return -EINVAL;
	}
	if (options->flight_bytes && (options->no_sleds || options->all || options->tid)) {
		xp_error("--flight keeps records of sleds, and there are none with --no-sleds, --all or --tid");
		return -EINVAL;
	}
	if (check_min_duration(options) || xp_option_triggers_check(options))
		return -EINVAL;
	if ((options->sled_mode == XP_SLED_MODE_OPTION_PATCH || options->sled_mode == XP_SLED_MODE_OPTION_MEMORY) &&
	    (options->follow || options->exec_path) && options->max_overhead > 0) {
		xp_error("--sled-mode %s with --max-overhead goes with -p or -- CMD, without --follow",
			 options->sled_mode == XP_SLED_MODE_OPTION_PATCH ? "patch" : "memory");
		return -EINVAL;
	}
	if (check_samples(options))
		return -EINVAL;
	if (options->operand_count) {
		options->child_argv = options->operands;
		options->operands = NULL;
		options->operand_count = 0;
	}
	return 0;
}
