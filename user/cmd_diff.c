// SPDX-License-Identifier: BSD-2-Clause
/* `xprof diff A B`: what has changed between two recordings. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "diff/out.h"
#include "diff/read.h"
#include "export/file.h"
#include "report/pager.h"

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

static int check(const struct xp_options *options)
{
	if (options->json + options->html + options->folded > 1)
		return xp_fail(-EINVAL, "--html, --folded and --json exclude each other");
	if (options->normalize && options->wall)
		return xp_fail(-EINVAL, "--normalize and --wall exclude each other");
	if (options->html && !options->export_path && isatty(STDOUT_FILENO))
		return xp_fail(-EINVAL, "a page for a browser is no text for a terminal; give -o FILE");
	return 0;
}

enum xp_exit xp_cmd_diff(const struct xp_options *options)
{
	const struct xp_diff_options how = {
		.basis = options->normalize ? XP_DIFF_SHARES
			 : options->wall    ? XP_DIFF_PER_SECOND
					    : XP_DIFF_PER_CPU_SECOND,
		.by_total = options->diff_sort == XP_DIFF_SORT_OPTION_CUM,
		.full_names = options->full_names,
		.waits = options->waits,
		.instr_map = options->instr_map,
		.select = { .comms = options->comms.texts, .comm_count = options->comms.count },
	};
	const char *const paths[] = { options->operands[0], options->operands[1] };
	struct xp_diff_reading reading;
	bool broken;
	int err;

	if (check(options))
		return XP_EXIT_USAGE;
	/* A name is worth a download only to those who say so. */
	unsetenv("DEBUGINFOD_URLS");
	if (options->export_path)
		xp_export_file_end_by_signals();
	err = xp_diff_read(&reading, paths, &how);
	if (!err)
		err = write_diff(&reading.pair, options);
	else if (err == -ENOMEM || err == -EAGAIN)
		xp_error("cannot compare: %s", strerror(-err));
	broken = reading.broken;
	xp_diff_reading_free(&reading);
	return err || broken ? XP_EXIT_FAILED : XP_EXIT_OK;
}
