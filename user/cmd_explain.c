// SPDX-License-Identifier: BSD-2-Clause
/* `xprof explain DIR`: shows why the slowest calls of a recording were slow. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/why.h"
#include "commands.h"
#include "explain/explain.h"
#include "model/part_list.h"
#include "report/pager.h"

#define COLUMNS 80

static int print(const struct xp_explanation *explanation, bool is_json)
{
	struct xp_page page;
	int err = xp_page_begin(&page, is_json);

	if (err)
		return err;
	if (is_json)
		err = xp_explanation_write_json(page.out, explanation);
	else
		xp_explanation_print(page.out, explanation, COLUMNS);
	return xp_page_end(&page, err);
}

enum xp_exit xp_cmd_explain(const struct xp_options *options)
{
	bool compares = options->tail > 0 || options->against > 0;
	const struct xp_text_list *functions = options->requests.count ? &options->requests : &options->functions;
	const struct xp_explain_options how = {
		.functions = functions->texts,
		.function_count = functions->count,
		.are_requests = options->requests.count > 0,
		.slowest = XP_MIN((size_t)options->slowest, (size_t)XP_SLOW_CALLS_MAX),
		.above_ns = options->above_ns,
		.tail = compares ? options->tail ?: 0.01 : 0,
		.against = options->against ?: 0.5,
		.full_names = options->full_names,
		.instr_map = options->instr_map,
	};
	struct xp_explanation explanation = { 0 };
	struct xp_part_list parts = { 0 };
	int err;

	if (compares && (options->above_ns || options->slowest))
		return xp_fail(XP_EXIT_USAGE, "--tail and --against cannot be used with --above or --slowest");
	if (options->requests.count && options->functions.count)
		return xp_fail(XP_EXIT_USAGE, "--request and --function cannot be used together");
	err = xp_part_list_make(&parts, options->operands[0], options->times, (uint64_t)time(NULL));
	if (!err)
		err = xp_explain(&explanation, &parts, &how);
	if (!err)
		err = print(&explanation, options->json);
	if (err == -ENODATA)
		xp_error("%s", xp_why(err));
	else if (err && err != -ENOENT && err != -EINVAL)
		xp_error("cannot explain %s: %s", options->operands[0], strerror(-err));
	if (explanation.broken)
		err = err ? err : -EBADMSG;
	xp_explanation_free(&explanation);
	xp_part_list_free(&parts);
	return err == -EINVAL ? XP_EXIT_USAGE : err ? XP_EXIT_FAILED : XP_EXIT_OK;
}
