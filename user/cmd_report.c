// SPDX-License-Identifier: BSD-2-Clause
/* `xprof report DIR|FILE...`: prints the top functions of a recording. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "report/pager.h"
#include "report/pprof_file.h"
#include "report/pprof_table.h"
#include "report/print.h"

static int print_report(struct xp_report_tables *tables, const struct xp_recorded *recorded,
			const struct xp_options *options)
{
	struct xp_terminal terminal;
	struct xp_report_style style = {
		.full_names = options->full_names,
		.limit = options->limit,
		.sort = (enum xp_report_sort)options->sort,
	};
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int err;

	if (!out)
		return -ENOMEM;
	xp_terminal_look(&terminal);
	style.colour = terminal.colour;
	style.columns = terminal.columns;
	xp_report_print(out, tables, recorded, &style);
	err = ferror(out) ? -ENOMEM : 0;
	if (fclose(out) && !err)
		err = -ENOMEM;
	if (!err)
		err = xp_page(&terminal, text, bytes);
	free(text);
	return err;
}

/* A profile of pprof's own format has a report of its own: it has its names already. */
static int report_pprof(const struct xp_options *options, const struct xp_report_options *how, const char *path,
			bool *failed)
{
	const struct xp_recorded none = { 0 };
	struct xp_report_tables tables = { 0 };
	int err = xp_report_read_pprof(&tables, path, how);

	if (!err)
		err = print_report(&tables, &none, options);
	xp_report_free(&tables);
	*failed |= err == -EBADMSG;
	return err == -EBADMSG ? 0 : err;
}

/* A single recording tells more: its machine, and threads from perf.data. */
static const char *only_directory(const struct xp_options *options)
{
	struct stat st;

	return options->operand_count == 1 && !stat(options->operands[0], &st) && S_ISDIR(st.st_mode)
		   ? options->operands[0]
		   : NULL;
}

/* *failed: a part of it could not be read, and the error is printed. */
static int report(const struct xp_options *options, struct xp_recorded *recorded, bool *failed)
{
	const struct xp_report_options how = {
		.by = options->by >= 0 ? (enum xp_model_group)options->by : XP_MODEL_BY_PROCESS,
		.directory = only_directory(options),
		.by_line = options->lines,
		.no_inlines = options->no_inlines,
		.instr_map = options->instr_map,
	};
	struct xp_report_tables tables;
	bool broken;
	int err;

	for (size_t i = 0; i < options->operand_count; i++) {
		err = xp_pprof_file_is_one(options->operands[i])
			  ? report_pprof(options, &how, options->operands[i], failed)
			  : xp_recorded_add(recorded, options->operands[i]);
		if (err == -ENOENT)
			*failed = true;
		else if (err)
			return err;
	}
	if (!recorded->process_count)
		return 0;
	err = xp_report_make(&tables, recorded, &how, &broken);
	*failed |= broken;
	if (!err)
		err = print_report(&tables, recorded, options);
	xp_report_free(&tables);
	return err;
}

enum xp_exit xp_cmd_report(const struct xp_options *options)
{
	struct xp_recorded recorded = { .reads_pprof = true };
	bool failed = false;
	int err = report(options, &recorded, &failed);

	xp_recorded_free(&recorded);
	if (err && err != -ENODATA)
		xp_error("cannot make the report: %s", strerror(-err));
	return err || failed ? XP_EXIT_FAILED : XP_EXIT_OK;
}
