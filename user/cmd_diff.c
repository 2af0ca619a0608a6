// SPDX-License-Identifier: BSD-2-Clause
/* `xprof diff A B`: shows what changed between two recordings. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "commands.h"
#include "diff/diff.h"
#include "diff/out.h"
#include "export/output.h"
#include "model/input.h"
#include "model/part_list.h"
#include "model/select.h"
#include "report/pager.h"

/* ---- the recordings ---- */

struct reading {
	struct xp_diff diffs[3]; /* indexed by enum xp_model_kind */
	struct xp_diff_pair pair;
	char *names[2]; /* clean names of A and B */
	struct xp_part_list parts[2];
	bool broken; /* a file cannot be read; the error was printed */
};

static struct xp_select select_of(const struct xp_options *options)
{
	return (struct xp_select){ .comms = options->comms.texts, .comm_count = options->comms.count };
}

static int add_model(struct reading *reading, size_t side, const struct xp_model *model, const char *path)
{
	int err = xp_diff_add(&reading->diffs[model->kind], side, model);

	if (err == -E2BIG) {
		xp_error("%s: it has too many different stacks", path);
		err = -EBADMSG;
	}
	return err;
}

/* Reduces the length of the recording to the selected time. */
static void clip_length(struct xp_model *model, const struct xp_select *select)
{
	uint64_t end_ns = select->to_ns ? XP_MIN(select->to_ns, model->length_ns) : model->length_ns;

	model->length_ns = end_ns - XP_MIN(end_ns, select->from_ns);
}

static int read_recording(struct reading *reading, size_t side, size_t part, const struct xp_options *options)
{
	const char *path = reading->parts[side].paths[part];
	struct xp_select select = select_of(options);
	struct xp_model_input input = { 0 };
	int err = xp_model_input_open(&input, path);

	xp_part_list_select(&reading->parts[side], input.facts, &select);
	for (int kind = options->waits ? XP_MODEL_WAITS : XP_MODEL_SAMPLES;
	     !err && kind <= (options->waits ? XP_MODEL_WAITS : XP_MODEL_CALLS); kind++) {
		struct xp_model_source source = xp_model_input_source(&input);
		struct xp_model model;

		/* Only perf.data has the times of samples and waits, so without it a selected time applies only to
		 * calls. */
		if (kind != XP_MODEL_CALLS && (select.from_ns || select.to_ns) && !input.recorded.has_perf_data)
			continue;
		source.select = &select;
		source.instr_map = options->instr_map;
		source.full_names = options->full_names;
		err = xp_model_input_read(&model, &input, &source, (enum xp_model_kind)kind, XP_MODEL_KEEP_DURATIONS);
		clip_length(&model, &select);
		if (!err)
			err = add_model(reading, side, &model, path);
		xp_model_free(&model);
	}
	reading->broken |= input.broken;
	xp_model_input_close(&input);
	return err;
}

static char *clean_name(const char *path)
{
	size_t size = 4 * strlen(path) + 1;
	char *name = malloc(size);

	if (name)
		xp_clean_text(name, size, path);
	return name;
}

static int read_side(struct reading *reading, size_t side, const char *path, const struct xp_options *options)
{
	int err;

	reading->names[side] = clean_name(path);
	if (!reading->names[side])
		return -ENOMEM;
	for (size_t i = 0; i < XP_ARRAY_SIZE(reading->diffs); i++)
		reading->diffs[i].sides[side].path = reading->names[side];
	err = xp_part_list_make(&reading->parts[side], path, options->times, (uint64_t)time(NULL));
	for (size_t i = 0; !err && i < reading->parts[side].count; i++)
		err = read_recording(reading, side, i, options);
	return err;
}

static bool has_any(const struct xp_diff *diff)
{
	return diff->sides[0].total || diff->sides[1].total || diff->sides[0].calls || diff->sides[1].calls;
}

/* Compares only data that both sides recorded, so that data that was not recorded does not count as gone. */
static bool has_both(const struct xp_diff *diff)
{
	bool has[2];

	for (size_t i = 0; i < 2; i++)
		has[i] = diff->sides[i].total || diff->sides[i].calls;
	if (has[0] != has[1])
		xp_warn("%s has no %s, but %s has: they are not compared", diff->sides[has[0]].path,
			xp_model_kind_name(diff->kind), diff->sides[!has[0]].path);
	return has[0] && has[1];
}

static int compare(struct reading *reading, const struct xp_options *options)
{
	const enum xp_diff_basis basis = options->normalize ? XP_DIFF_SHARES
					 : options->wall    ? XP_DIFF_PER_SECOND
							    : XP_DIFF_PER_CPU_SECOND;
	const struct xp_select select = select_of(options);
	int err = 0;

	for (size_t i = 0; !err && i < XP_ARRAY_SIZE(reading->diffs); i++) {
		struct xp_diff *diff = &reading->diffs[i];

		if (!has_any(diff) || !has_both(diff))
			continue;
		err = xp_diff_make(diff, basis, options->diff_sort == XP_DIFF_SORT_OPTION_CUM);
		if (!err && diff->basis == XP_DIFF_SHARES && basis != XP_DIFF_SHARES)
			xp_warn("shares are compared, as with --normalize: the length of a recording or the time "
				"between its "
				"samples is unknown");
		reading->pair.all[reading->pair.count++] = diff;
	}
	if (err || reading->pair.count)
		return err;
	xp_error("nothing to compare: %s", xp_select_is_given(&select) ? "nothing is selected in both"
					   : options->waits
					       ? "both recordings need waits; `xprof record --off-cpu` records them"
					       : "no samples or calls in both");
	return -ENODATA;
}

/*
 * Prints errors. The caller calls free_reading(), also after an error. Returns 0 or -errno: -ENODATA if there is
 * nothing to compare, or another error after a message; -ENOMEM and -EAGAIN without one.
 */
static int read_both(struct reading *reading, const struct xp_options *options)
{
	int err = 0;

	memset(reading, 0, sizeof(*reading));
	for (size_t i = 0; !err && i < XP_ARRAY_SIZE(reading->diffs); i++)
		err = xp_diff_init(&reading->diffs[i], (enum xp_model_kind)i);
	for (size_t i = 0; !err && i < 2; i++)
		err = read_side(reading, i, options->operands[i], options);
	return err ? err : compare(reading, options);
}

static void free_reading(struct reading *reading)
{
	for (size_t i = 0; i < XP_ARRAY_SIZE(reading->diffs); i++)
		xp_diff_free(&reading->diffs[i]);
	for (size_t i = 0; i < 2; i++) {
		free(reading->names[i]);
		xp_part_list_free(&reading->parts[i]);
	}
}

/* ---- the output ---- */

struct writing {
	const struct xp_diff_pair *pair;
	const struct xp_options *options;
};

static int write_file(void *arg, FILE *out)
{
	const struct writing *writing = arg;
	const struct xp_diff_style style = { .limit = writing->options->limit };

	if (writing->options->json)
		return xp_diff_json(out, writing->pair);
	if (writing->options->html)
		return xp_diff_html(out, writing->pair);
	if (writing->options->folded)
		return xp_diff_folded(out, writing->pair->all[0]);
	xp_diff_print(out, writing->pair, &style);
	return 0;
}

static int show(const struct writing *writing)
{
	struct xp_diff_style style = { .limit = writing->options->limit };
	struct xp_page page;
	int err = xp_page_begin(&page, false);

	if (err)
		return err;
	style.colour = page.terminal.colour;
	style.columns = page.terminal.columns;
	xp_diff_print(page.out, writing->pair, &style);
	return xp_page_end(&page, 0);
}

static int write_diff(const struct xp_diff_pair *pair, const struct xp_options *options)
{
	struct writing writing = { pair, options };
	const char *path = options->export_path;
	bool is_text = !options->json && !options->html && !options->folded;
	int err;

	if (is_text && !path)
		err = show(&writing);
	else
		err = xp_export_file_given(path ? path : "-", write_file, &writing);
	if (err)
		xp_error("%s: cannot write it: %s", path && strcmp(path, "-") != 0 ? path : "the standard output",
			 xp_export_file_reason(err));
	return err;
}

/* ---- the command ---- */

static int check(const struct xp_options *options)
{
	if (options->json + options->html + options->folded > 1)
		return xp_fail(-EINVAL, "use only one of --html, --folded and --json");
	if (options->normalize && options->wall)
		return xp_fail(-EINVAL, "--normalize cannot be used with --wall");
	if (options->html && !options->export_path && isatty(STDOUT_FILENO))
		return xp_fail(-EINVAL, "--html writes an HTML page, but standard output is a terminal; use -o FILE");
	return 0;
}

enum xp_exit xp_cmd_diff(const struct xp_options *options)
{
	struct reading reading;
	bool broken;
	int err;

	if (check(options))
		return XP_EXIT_USAGE;
	unsetenv("DEBUGINFOD_URLS"); /* downloads only for export --debuginfod */
	if (options->export_path)
		xp_export_file_end_by_signals();
	err = read_both(&reading, options);
	if (!err)
		err = write_diff(&reading.pair, options);
	else if (err == -ENOMEM || err == -EAGAIN)
		xp_error("cannot compare: %s", strerror(-err));
	broken = reading.broken;
	free_reading(&reading);
	return err || broken ? XP_EXIT_FAILED : XP_EXIT_OK;
}
