// SPDX-License-Identifier: BSD-2-Clause
#include "option_parts.h"

#include <errno.h>

#include "base/util.h"

/* Those of samples alone. */
#define SAMPLE_FORMATS (1u << XP_FORMAT_PPROF | 1u << XP_FORMAT_FOLDED)

int xp_option_record_export_check(const struct xp_options *options)
{
	if (options->formats && options->dry_run)
		return xp_fail(-EINVAL, "--export and --open cannot be used with --dry-run, which records nothing");
	if (options->formats & SAMPLE_FORMATS && (options->no_samples || options->exec_path))
		return xp_fail(
		    -EINVAL,
		    "--export pprof and folded cannot be used with %s, which records no samples; use html or "
		    "perfetto",
		    options->exec_path ? "--exec" : "--no-samples");
	return 0;
}

int xp_option_export_check(const struct xp_options *options)
{
	if (!options->formats)
		return xp_fail(-EINVAL, "no format; give --format with pprof, folded, html or perfetto");
	if (options->export_path && __builtin_popcount(options->formats) > 1)
		return xp_fail(-EINVAL, "--output can be used with only one format");
	if (options->calls && options->waits)
		return xp_fail(-EINVAL, "--calls cannot be used with --off-cpu");
	if (options->calls && options->by == XP_BY_OPTION_CPU)
		return xp_fail(-EINVAL, "--calls cannot be used with --by cpu, because a call can change its CPU");
	if (options->to_ns && options->to_ns <= options->from_ns)
		return xp_fail(-EINVAL, "--to is not after --from");
	return 0;
}

int xp_option_report_check(const struct xp_options *options)
{
	bool is_tree = options->tree || options->callers;

	if (options->calls && !is_tree)
		return xp_fail(-EINVAL, "--calls requires --tree or --callers; the tables show calls without it");
	if (is_tree && (options->lines || options->no_inlines))
		return xp_fail(-EINVAL,
			       "--tree and --callers cannot be used with --lines or --no-inlines, which change tables");
	if (is_tree && options->operand_count > 1)
		return xp_fail(-EINVAL, "--tree and --callers can be used with only one recording");
	if (options->calls && options->by == XP_BY_OPTION_CPU)
		return xp_fail(-EINVAL, "--calls cannot be used with --by cpu, because a call can change its CPU");
	if (options->calls && options->waits)
		return xp_fail(-EINVAL, "--calls cannot be used with --off-cpu");
	if (options->waits && (options->lines || options->no_inlines))
		return xp_fail(-EINVAL,
			       "--off-cpu cannot be used with --lines or --no-inlines, which change tables of samples");
	if (options->waits && options->operand_count > 1)
		return xp_fail(-EINVAL, "--off-cpu can be used with only one recording");
	return 0;
}
