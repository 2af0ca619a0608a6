// SPDX-License-Identifier: BSD-2-Clause
/* Options that exclude or require each other. */
#include "option_parts.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"

/* The formats that contain only samples, no calls. */
#define SAMPLE_FORMATS (1u << XP_FORMAT_PPROF | 1u << XP_FORMAT_FOLDED)

struct rule {
	bool is_broken;
	const char *message;
};

/* Prints the message of the first rule that is broken. */
static int check_rules(const struct rule *rules, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (rules[i].is_broken)
			return xp_fail(-EINVAL, "%s", rules[i].message);
	return 0;
}

#define CHECK_RULES(rules) check_rules(rules, XP_ARRAY_SIZE(rules))

/* ---- export and report ---- */

/* Checks the options that select samples, calls or waits. */
static int check_kind(const struct xp_options *options)
{
	const struct rule rules[] = {
		{ options->calls && options->waits, "--calls cannot be used with --off-cpu" },
		{ options->calls && options->by == XP_BY_OPTION_CPU,
		  "--calls cannot be used with --by cpu, because a call can change its CPU" },
	};

	return CHECK_RULES(rules);
}

int xp_option_export_check(const struct xp_options *options)
{
	const struct rule rules[] = {
		{ !options->formats, "no format; give --format with pprof, folded, html or perfetto" },
		{ options->export_path && __builtin_popcount(options->formats) > 1,
		  "--output can be used with only one format" },
		{ options->requests.count &&
		      (!(options->formats & (1u << XP_FORMAT_HTML | 1u << XP_FORMAT_PERFETTO)) || options->calls ||
		       options->waits || options->functions.count || options->comms.count || options->pids.count ||
		       options->tid || options->times[0].kind || options->times[1].kind),
		  "--request requires --format html or perfetto without a selection" },
	};

	return CHECK_RULES(rules) ?: check_kind(options);
}

int xp_option_report_check(const struct xp_options *options)
{
	const bool is_tree = options->tree || options->callers, is_table = options->lines || options->no_inlines;
	const struct rule rules[] = {
		{ options->calls && !is_tree,
		  "--calls requires --tree or --callers; the tables show calls without it" },
		{ is_tree && is_table,
		  "--tree and --callers cannot be used with --lines or --no-inlines, which change tables" },
		{ is_tree && options->operand_count > 1, "--tree and --callers can be used with only one recording" },
		{ options->waits && is_table,
		  "--off-cpu cannot be used with --lines or --no-inlines, which change tables of samples" },
		{ options->waits && options->operand_count > 1, "--off-cpu can be used with only one recording" },
	};

	return CHECK_RULES(rules) ?: check_kind(options);
}

/* ---- record ---- */

/*
 * Returns whether a pattern names an object. Such patterns also select functions without sleds, which only patching can
 * record.
 */
static bool names_object(const struct xp_text_list *functions)
{
	bool names = false;

	for (size_t i = 0; i < functions->count; i++)
		names |= xp_text_object_end(functions->texts[i] + (functions->texts[i][0] == '!')) != NULL;
	return names;
}

static int check_targets(const struct xp_options *options, bool separated)
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
	return 0;
}

static int check_calls(const struct xp_options *options)
{
	const bool no_calls = options->no_sleds || options->all || options->tid;
	const bool is_probe = options->call_mode == XP_CALL_MODE_OPTION_PROBE, is_limited = options->max_overhead > 0;
	const struct rule rules[] = {
		{ options->no_sleds && options->no_samples,
		  "--no-sleds cannot be used with --no-samples: nothing would be recorded" },
		{ options->no_sleds && options->exec_path,
		  "--no-sleds cannot be used with --exec, which records only calls" },
		{ is_limited && no_calls,
		  "--max-overhead cannot be used with --no-sleds, --all or --tid, which record no calls" },
		{ is_limited && is_probe,
		  "--max-overhead cannot be used with --call-mode probe: it requires patched sleds" },
		{ options->flight_bytes && no_calls,
		  "--flight cannot be used with --no-sleds, --all or --tid, which record no calls" },
		{ options->min_duration_ns && no_calls,
		  "--min-duration cannot be used with --no-sleds, --all or --tid, which record no calls" },
		{ names_object(&options->functions) &&
		      (options->exec_path || options->no_sleds || is_limited || is_probe),
		  "--functions OBJECT:GLOB cannot be used with --exec, --no-sleds, --max-overhead or "
		  "--call-mode probe" },
	};

	return CHECK_RULES(rules);
}

/* Whether each is PROVIDER:NAME or OBJECT:PROVIDER:NAME, without an empty part. */
static bool are_probes(const struct xp_text_list *usdt)
{
	for (size_t i = 0; i < usdt->count; i++) {
		const char *text = usdt->texts[i];
		size_t colons = 0;

		for (const char *at = text; *at; at++)
			colons += *at == ':';
		if (colons < 1 || colons > 2 || *text == ':' || text[strlen(text) - 1] == ':' || strstr(text, "::"))
			return false;
	}
	return true;
}

/* Whether each has an OBJECT that is an absolute path. */
static bool have_paths(const struct xp_text_list *usdt)
{
	for (size_t i = 0; i < usdt->count; i++)
		if (usdt->texts[i][0] != '/' || strchr(usdt->texts[i], ':') == strrchr(usdt->texts[i], ':'))
			return false;
	return true;
}

static int check_usdt(const struct xp_options *options)
{
	const struct rule rules[] = {
		{ !are_probes(&options->usdt),
		  "--usdt takes PROVIDER:NAME or OBJECT:PROVIDER:NAME, such as 'python:gc__*'" },
		{ options->usdt.count && (options->tid || options->exec_path),
		  "--usdt cannot be used with --tid or --exec; use -p PID, CMD, or --all with /PATH:PROVIDER:NAME" },
		{ options->all && !have_paths(&options->usdt),
		  "--usdt with --all requires the path of a binary: /PATH:PROVIDER:NAME" },
		{ options->usdt.count && (options->no_samples || options->dry_run),
		  "--usdt cannot be used with --no-samples or --dry-run: it writes to perf.data" },
	};

	return CHECK_RULES(rules);
}

static int check_others(const struct xp_options *options)
{
	const struct rule rules[] = {
		{ options->dry_run && options->operand_count, "--dry-run cannot be used with CMD, which it does not "
							      "start; give -p PID, -t TID, -a or --exec PATH" },
		{ options->formats && options->dry_run,
		  "--export and --open cannot be used with --dry-run, which records nothing" },
		{ options->formats & SAMPLE_FORMATS && options->no_samples,
		  "--export pprof and folded cannot be used with --no-samples, which records no samples; use html or "
		  "perfetto" },
		{ options->formats & SAMPLE_FORMATS && options->exec_path,
		  "--export pprof and folded cannot be used with --exec, which records no samples; use html or "
		  "perfetto" },
		{ options->cpus && !options->all, "--cpu requires --all" },
		{ options->off_cpu.given && options->no_samples,
		  "--off-cpu cannot be used with --no-samples: waits are stored with the samples" },
		{ options->no_samples && (options->all || options->tid),
		  "--no-samples cannot be used with --all or --tid, which record only samples; to record calls, use "
		  "-p PID" },
		{ options->compress && options->no_compression, "--compress cannot be used with --no-compression" },
		{ !options->push && options->push_auth, "--push-auth requires --push" },
		{ !options->push && options->labels.count, "--label requires --push" },
		{ options->push && options->dry_run, "--push cannot be used with --dry-run, which records nothing" },
		{ !options->rotate.given && options->keep.given, "--keep requires --rotate" },
		{ options->rotate.given && (options->flight_bytes || options->max_overhead > 0),
		  "--rotate cannot be used with --flight, which writes a log only when it is requested, or "
		  "--max-overhead, which has one budget for the recording" },
		{ options->rotate.given && options->max_bytes,
		  "--max-size ends a recording; with --rotate, limit a part by --rotate SIZE, and all parts by "
		  "--keep SIZE" },
		{ options->rotate.given && (options->dry_run || options->open),
		  "--rotate cannot be used with --dry-run or --open" },
	};

	return CHECK_RULES(rules);
}

int xp_option_record_check(struct xp_options *options, bool separated)
{
	if (check_targets(options, separated) || check_calls(options) || check_usdt(options) || check_others(options) ||
	    xp_option_triggers_check(options))
		return -EINVAL;
	if (options->operand_count) {
		options->child_argv = options->operands;
		options->operands = NULL;
		options->operand_count = 0;
	}
	return 0;
}
