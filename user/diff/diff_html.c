// SPDX-License-Identifier: BSD-2-Clause
/* Writes the HTML page of a comparison. Each tree has the values of A and B: numbers of samples, or ns (html_view.h).
 */
#include "diff/out.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "export/html_view.h"
#include "model/json_data.h"

static int put_view(FILE *out, struct xp_diff *diff)
{
	const struct xp_diff_side *sides = diff->sides;
	bool is_calls = diff->kind == XP_MODEL_CALLS;
	bool by_comm = sides[0].many_processes && sides[1].many_processes;
	const struct xp_model_tree *const trees[] = { &diff->tree };
	struct xp_html_view view = { .out = out, .model = &diff->model, .period = 1 };
	uint32_t *moved = xp_model_tree_bound(&diff->tree, &diff->model, XP_HTML_NODES_MAX);
	int err;

	fprintf(out, "{\"kind\":\"%s\",\"by\":\"%s\",\"dropped\":0", xp_model_kind_name(diff->kind),
		by_comm ? "comm" : "none");
	fprintf(out, ",\"unit\":\"%s\",\"per\":\"%s\",\"scales\":[%.17g,%.17g]", xp_diff_unit(diff), xp_diff_per(diff),
		sides[0].scale, sides[1].scale);
	if (is_calls)
		fprintf(out, ",\"calls\":[%" PRIu64 ",%" PRIu64 "]", sides[0].calls, sides[1].calls);
	free(moved);
	err = moved ? xp_html_view_begin(&view, trees, 1) : -ENOMEM;
	if (!err)
		xp_html_put_tree(&view, trees[0]);
	xp_html_view_end(&view);
	return err;
}

int xp_diff_html(FILE *out, const struct xp_diff_pair *pair)
{
	int err = 0;

	xp_html_put_start(out);
	fputs("{\"sides\":[", out);
	for (size_t i = 0; i < 2; i++) {
		const struct xp_diff_side *side = &pair->all[0]->sides[i];

		fputs(i ? ",{\"path\":" : "{\"path\":", out);
		xp_json_text(out, side->path);
		fprintf(out, ",\"lengthNs\":%" PRIu64 "}", side->length_ns);
	}
	fputs("],\n\"views\":[", out);
	for (size_t i = 0; !err && i < pair->count; i++) {
		if (i)
			fputs(",\n", out);
		err = put_view(out, pair->all[i]);
		putc('}', out);
	}
	fputs("]}", out);
	xp_html_put_end(out);
	return err;
}
