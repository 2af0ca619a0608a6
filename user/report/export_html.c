// SPDX-License-Identifier: BSD-2-Clause
/* One HTML page with the samples, the calls and the waits of a recording. */
#include "report/export.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/html_view.h"
#include "report/json_data.h"

static int put_view(FILE *out, struct xp_model *model, enum xp_model_group by)
{
	static const char *const groups[] = {
		[XP_MODEL_BY_PROCESS] = "process", [XP_MODEL_BY_THREAD] = "thread", [XP_MODEL_BY_COMM] = "comm",
		[XP_MODEL_BY_CPU] = "cpu",	   [XP_MODEL_BY_NONE] = "none",	    [XP_MODEL_BY_CGROUP] = "cgroup",
	};
	static const char *const kinds[] = {
		[XP_MODEL_SAMPLES] = "samples", [XP_MODEL_CALLS] = "calls", [XP_MODEL_WAITS] = "waits"
	};
	struct xp_model_tree tree;
	int err;

	/* A call has no CPU. */
	if (model->kind == XP_MODEL_CALLS && by == XP_MODEL_BY_CPU)
		by = XP_MODEL_BY_THREAD;
	err = xp_model_tree_make(&tree, model, by);
	if (!err) {
		fprintf(out, "{\"kind\":\"%s\",\"by\":\"%s\",\"dropped\":%" PRIu64, kinds[model->kind], groups[by],
			model->dropped);
		err = xp_html_put_view(out, model, &tree, model->period_ns);
		putc('}', out);
	}
	xp_model_tree_free(&tree);
	return err;
}

static void put_facts(FILE *out, const struct xp_facts *facts)
{
	const struct xp_facts_summary *summary = xp_facts_summary(facts);
	char *comment = xp_facts_comment(facts), *machine = xp_facts_machine(facts);
	const char *command = comment ? strstr(comment, ": ") : NULL;

	fputs("\"command\":", out);
	xp_json_text(out, command ? command + 2 : NULL);
	fputs(",\"machine\":", out);
	xp_json_text(out, machine);
	fprintf(out, ",\"startedMs\":%" PRIu64 ",\"lengthNs\":%" PRIu64, summary->started_ns / 1000000,
		summary->length_ns);
	if (machine)
		fprintf(out, ",\"lost\":%" PRIu64, summary->lost);
	free(comment);
	free(machine);
}

int xp_export_html(FILE *out, const struct xp_export_page *page, const struct xp_export_options *options)
{
	int err = 0;

	xp_html_put_start(out);
	putc('{', out);
	put_facts(out, page->facts);
	fputs(",\n\"views\":[", out);
	for (size_t i = 0; !err && i < page->model_count; i++) {
		if (i)
			fputs(",\n", out);
		err = put_view(out, page->models[i], options->by);
	}
	fputs("]}", out);
	xp_html_put_end(out);
	return err;
}
