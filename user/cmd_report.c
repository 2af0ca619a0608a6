// SPDX-License-Identifier: BSD-2-Clause
/* `xprof report DIR|FILE...`: prints the top functions of a recording. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/array.h"
#include "base/why.h"
#include "commands.h"
#include "elf/function_patterns.h"
#include "model/input.h"
#include "model/part_list.h"
#include "report/report_json.h"
#include "report/pager.h"
#include "report/report_print.h"
#include "report/tree_text.h"

static struct xp_report_style style_of(const struct xp_page *page, const struct xp_options *options)
{
	return (struct xp_report_style){
		.colour = page->terminal.colour,
		.columns = page->terminal.columns,
		.full_names = options->full_names,
		.limit = options->limit,
		.sort = (enum xp_report_sort)options->sort,
	};
}

static int print_report(struct xp_report_tables *tables, const struct xp_recorded *recorded,
			const struct xp_options *options)
{
	struct xp_report_style style;
	struct xp_page page;
	int err = xp_page_begin(&page, options->json);

	if (err)
		return err;
	style = style_of(&page, options);
	if (options->json) {
		xp_report_sort_all(tables, style.sort);
		xp_report_json(page.out, tables, recorded);
	} else {
		xp_report_print(page.out, tables, recorded, &style);
	}
	return xp_page_end(&page, 0);
}

/* What the operands are. */
struct reading {
	struct xp_recorded recorded;
	struct xp_select *times; /* selected times of each directory */
	size_t times_count, times_room;
	bool has_times; /* there are parts of a recording, or one is selected in part */
	size_t paths, directories;
	bool failed; /* one cannot be read, after the error was printed */
};

/* Returns the directory if there is only one recording. Its report also has the machine, and threads from perf.data. */
static const char *only_directory(const struct reading *reading)
{
	return reading->paths == 1 && reading->directories == 1 ? reading->recorded.directories[0].binaries->directory
								: NULL;
}

static int say_no_waits(void)
{
	return xp_fail(-ENODATA, "no waits in this recording; `xprof record --off-cpu` records where threads wait");
}

static int add_part(struct reading *reading, struct xp_part_list *parts, size_t index)
{
	struct xp_recorded *recorded = &reading->recorded;
	struct xp_select select = { 0 };
	struct stat st;
	int err = xp_recorded_add(recorded, parts->paths[index]);

	reading->failed |= err == -ENOENT;
	if (err && err != -ENOENT)
		return err;
	if (XP_ARRAY_RESERVE(reading->times, reading->times_room, recorded->directory_count))
		return -ENOMEM;
	if (recorded->directory_count)
		xp_part_list_select(parts, recorded->directories[recorded->directory_count - 1].facts, &select);
	while (reading->times_count < recorded->directory_count)
		reading->times[reading->times_count++] = select;
	reading->has_times |= select.from_ns || select.to_ns;
	reading->paths++;
	reading->directories += !stat(parts->paths[index], &st) && S_ISDIR(st.st_mode);
	return 0;
}

/* Whether its samples are only in profiles, which have no times. */
static bool has_only_profiles(const struct xp_recorded *recorded)
{
	bool has_profiles = false;

	for (size_t i = 0; i < recorded->process_count; i++)
		has_profiles |= !!recorded->processes[i].profile;
	return has_profiles && !recorded->has_perf_data;
}

/* Adds a recording, or all of its parts. */
static int add_parts(struct reading *reading, const char *name, const struct xp_options *options)
{
	struct xp_part_list parts = { 0 };
	int err = xp_part_list_make(&parts, name, options->times, (uint64_t)time(NULL));

	reading->failed |= err == -EINVAL;
	for (size_t i = 0; !err && i < parts.count; i++)
		err = add_part(reading, &parts, i);
	reading->has_times |= parts.count > 1 && !has_only_profiles(&reading->recorded);
	xp_part_list_free(&parts);
	return err == -EINVAL ? 0 : err;
}

/* Parts are read one by one if there are times, or what profiles do not have: threads, CPUs and waits. */
static bool needs_times(const struct reading *reading, const struct xp_options *options)
{
	bool needs_perf = options->waits || options->by == XP_BY_OPTION_THREAD || options->by == XP_BY_OPTION_CPU;

	return reading->has_times || (needs_perf && reading->paths > 1 && reading->directories == reading->paths);
}

static int make_report(const struct xp_options *options, struct reading *reading)
{
	struct xp_recorded *recorded = &reading->recorded;
	const struct xp_report_options how = {
		.by = options->by >= 0 ? (enum xp_model_group)options->by : XP_MODEL_BY_PROCESS,
		.directory = only_directory(reading),
		.times = needs_times(reading, options) ? reading->times : NULL,
		.by_line = options->lines,
		.no_inlines = options->no_inlines,
		.instr_map = options->instr_map,
		.full_names = options->full_names,
		.only_waits = options->waits,
	};
	struct xp_report_tables tables;
	bool broken;
	int err = xp_report_make(&tables, recorded, &how, &broken);

	reading->failed |= broken;
	if (!err && how.times && !tables.count && !options->waits)
		err = xp_fail(-ENODATA, "nothing to report: no sample, call or wait is selected");
	if (!err && options->waits && !tables.has_waits)
		err = say_no_waits();
	if (!err)
		err = print_report(&tables, recorded, options);
	xp_report_free(&tables);
	return err;
}

/* Prints the tables. Sets *failed if a file cannot be read, after printing the error. */
static int report(const struct xp_options *options, bool *failed)
{
	struct reading reading = { 0 };
	int err = 0;

	for (size_t i = 0; !err && i < options->operand_count; i++)
		err = add_parts(&reading, options->operands[i], options);
	if (!err && (reading.recorded.process_count || reading.recorded.has_perf_data))
		err = make_report(options, &reading);
	else if (!err && !reading.failed)
		err = xp_fail(-ENODATA, "nothing to report: no sample, call or wait was recorded");
	*failed |= reading.failed;
	free(reading.times);
	xp_recorded_free(&reading.recorded);
	return err;
}

/* ---- trees ---- */

static int show_tree(struct xp_model *model, const struct xp_model_tree *tree, enum xp_model_group by,
		     const struct xp_options *options)
{
	struct xp_report_style style;
	struct xp_page page;
	int err = xp_page_begin(&page, options->json);

	if (err)
		return err;
	style = style_of(&page, options);
	if (options->json)
		xp_report_json_tree(page.out, model, tree, by, options->callers);
	else
		err = xp_report_print_tree(page.out, model, tree, &style);
	return xp_page_end(&page, err);
}

/* Prints why there are no callers. Returns -EINVAL if no function matches the pattern, otherwise -ENODATA. */
static int say_no_callers(const struct xp_model *model, const char *const *pattern)
{
	struct xp_pattern_uses *uses = xp_pattern_uses_new(pattern, 1);
	int err;

	for (size_t i = 0; i < model->function_count; i++)
		xp_pattern_uses_match(uses, pattern, 0, model->functions[i].symbol, model->functions[i].name);
	err = xp_pattern_uses_check(uses, "--callers");
	xp_pattern_uses_free(uses);
	if (err)
		return xp_fail(-EINVAL, "%s", xp_why(err));
	return xp_fail(-ENODATA, "no %s of a function whose name matches '%s'", xp_model_kind_name(model->kind),
		       *pattern);
}

static int print_tree(struct xp_model *model, const struct xp_options *options)
{
	enum xp_model_group by = options->callers ? XP_MODEL_BY_NONE : XP_MODEL_BY_COMM;
	struct xp_model_tree tree;
	int err;

	if (options->by >= 0)
		by = (enum xp_model_group)options->by;
	err = options->callers ? xp_model_tree_callers(&tree, model, by, options->callers)
			       : xp_model_tree_make(&tree, model, by);
	if (!err && options->callers && tree.count == 1)
		err = say_no_callers(model, &options->callers);
	if (!err)
		err = show_tree(model, &tree, by, options);
	xp_model_tree_free(&tree);
	return err;
}

static int read_tree(struct xp_model_input *input, const struct xp_select *select, const struct xp_options *options)
{
	bool needs_threads = options->by == XP_BY_OPTION_THREAD || options->by == XP_BY_OPTION_CPU;
	enum xp_model_kind kind = options->waits ? XP_MODEL_WAITS : options->calls ? XP_MODEL_CALLS : XP_MODEL_SAMPLES;
	struct xp_model_source source = xp_model_input_source(input);
	struct xp_model model;
	int err;

	source.select = select;
	source.instr_map = options->instr_map;
	source.full_names = options->full_names;
	err = xp_model_input_read(&model, input, &source, kind, XP_MODEL_KEEP_FUNCTIONS);
	if (!err && !model.sample_count && options->waits) {
		err = say_no_waits();
	} else if (!err && !model.sample_count) {
		xp_error("no %s in this recording", xp_model_kind_name(kind));
		err = -ENODATA;
	} else if (!err && needs_threads && !model.has_threads) {
		xp_error(XP_REPORT_NEEDS_PERF);
		err = -ENODATA;
	}
	if (!err)
		err = print_tree(&model, options);
	xp_model_free(&model);
	return err;
}

static int report_tree(const struct xp_options *options, bool *failed)
{
	struct xp_model_input input = { 0 };
	struct xp_part_list parts = { 0 };
	struct xp_select select = { 0 };
	int err = xp_part_list_make(&parts, options->operands[0], options->times, (uint64_t)time(NULL));

	err = err ?: xp_model_input_open_parts(&input, &parts, &select) ?: read_tree(&input, &select, options);
	*failed |= err == -ENOENT || input.broken;
	xp_model_input_close(&input);
	xp_part_list_free(&parts);
	return err == -ENOENT ? 0 : err;
}

enum xp_exit xp_cmd_report(const struct xp_options *options)
{
	bool failed = false;
	int err = options->tree || options->callers ? report_tree(options, &failed) : report(options, &failed);

	if (err == -EINVAL)
		return XP_EXIT_USAGE;
	if (err && err != -ENODATA)
		xp_error("cannot make the report: %s", strerror(-err));
	return err || failed ? XP_EXIT_FAILED : XP_EXIT_OK;
}
