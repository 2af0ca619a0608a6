// SPDX-License-Identifier: BSD-2-Clause
/* One HTML page with the samples, the calls and the waits of a recording. */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "export/html_slots.h"
#include "export/html_view.h"
#include "export/html_why.h"
#include "model/input.h"
#include "model/json_data.h"
#include "model/read_waits.h"

/* Of a view, in all its trees. */
#define SLOT_ENTRIES_MAX 60000 /* of 6 to 12 bytes */
#define STATES_MAX 8	       /* that read_waits.h tells apart */

/* Finds the letters of the states of waits. Returns their number. */
static size_t find_states(const struct xp_model *model, uint32_t states[STATES_MAX])
{
	size_t count = 0, s;

	for (size_t i = 0; i < model->sample_count; i++) {
		for (s = 0; s < count && states[s] != model->samples[i].state;)
			s++;
		if (s == count && count < STATES_MAX)
			states[count++] = model->samples[i].state;
	}
	return count;
}

/*
 * The states, and the times in them of the nodes that have any. A further state counts as the last one. node_of: of
 * each sample.
 */
static int put_states(FILE *out, const struct xp_model *model, const struct xp_model_tree *tree,
		      const uint32_t *node_of, const uint32_t *states, size_t count)
{
	struct xp_json_numbers numbers = { .out = out };
	uint64_t *ns = calloc(tree->count * XP_MAX(count, (size_t)1), sizeof(*ns));

	if (!ns)
		return -ENOMEM;
	for (size_t i = 0; i < model->sample_count; i++)
		ns[node_of[i] * count + xp_html_state_index(model->samples[i].state, states, count)] +=
		    model->samples[i].values[1];
	fputs(",\n\"states\":[", out);
	for (size_t s = 0; s < count; s++) {
		fputs(s ? "," : "", out);
		xp_json_text(out, xp_waits_state(states[s]));
	}
	fputs("],\"byState\":\"", out);
	for (size_t i = 0; i < tree->count; i++)
		for (size_t s = 0; tree->nodes[i].self[1] && s < count; s++)
			xp_json_number(&numbers, ns[i * count + s]);
	xp_json_numbers_end(&numbers);
	putc('"', out);
	free(ns);
	return 0;
}

/* A tree, and the node of each sample in it. */
struct shown {
	struct xp_model_tree tree;
	uint32_t *node_of;
	enum xp_model_group by;
};

static int make_tree(struct shown *shown, struct xp_model *model, enum xp_model_group by)
{
	int err = xp_model_tree_make(&shown->tree, model, by);

	shown->by = by;
	shown->node_of = calloc(model->sample_count + 1, sizeof(*shown->node_of));
	if (!shown->node_of)
		return -ENOMEM;
	for (size_t i = 0; !err && i < model->sample_count; i++)
		err = xp_model_tree_node(&shown->tree, model, by, &model->samples[i], &shown->node_of[i]);
	return err;
}

static int bound_tree(struct shown *shown, struct xp_model *model, size_t max)
{
	uint32_t *moved = xp_model_tree_bound(&shown->tree, model, max);

	for (size_t i = 0; moved && i < model->sample_count; i++)
		shown->node_of[i] = moved[shown->node_of[i]];
	free(moved);
	return moved ? 0 : -ENOMEM;
}

static int put_trees(FILE *out, struct xp_model *model, const struct shown *shown, size_t count)
{
	const struct xp_model_tree *const trees[] = { &shown[0].tree, &shown[1].tree };
	struct xp_html_view view = { .out = out, .model = model, .period = model->period_ns };
	uint32_t states[STATES_MAX];
	size_t state_count = model->kind == XP_MODEL_WAITS ? find_states(model, states) : 0;
	int err = xp_html_view_begin(&view, trees, count);

	for (size_t i = 0; !err && i < count; i++) {
		if (i)
			fprintf(out, ",\n\"whole\":{\"by\":\"%s\"", xp_model_group_names[shown[i].by]);
		xp_html_put_tree(&view, trees[i]);
		if (model->kind == XP_MODEL_WAITS)
			err = put_states(out, model, trees[i], shown[i].node_of, states, state_count);
		err = err
			  ?: xp_html_put_slots(out, model, shown[i].node_of, states, state_count,
					       SLOT_ENTRIES_MAX / count);
		if (i)
			putc('}', out);
	}
	xp_html_view_end(&view);
	return err;
}

/* If the stacks of all threads are too many, there is also a tree in which the threads of a process are merged. */
static int put_view(FILE *out, struct xp_model *model, enum xp_model_group by, bool follows)
{
	struct shown shown[2] = { 0 };
	size_t count = 1;
	int err;

	/* The CPU of a call is unknown. */
	if (model->kind == XP_MODEL_CALLS && by == XP_MODEL_BY_CPU)
		by = XP_MODEL_BY_THREAD;
	err = make_tree(&shown[0], model, by);
	if (!err && by == XP_MODEL_BY_THREAD && shown[0].tree.count > XP_HTML_NODES_MAX)
		err = make_tree(&shown[count++], model, XP_MODEL_BY_PROCESS);
	for (size_t i = 0; !err && i < count; i++)
		err = bound_tree(&shown[i], model, XP_HTML_NODES_MAX / count);
	if (!err) {
		fprintf(out, "%s{\"kind\":\"%s\",\"by\":\"%s\",\"dropped\":%" PRIu64, follows ? ",\n" : "",
			xp_model_kind_name(model->kind), xp_model_group_names[by],
			model->kind == XP_MODEL_WAITS ? model->dropped_waits : model->dropped);
		err = put_trees(out, model, shown, count);
		putc('}', out);
	}
	for (size_t i = 0; i < XP_ARRAY_SIZE(shown); i++) {
		free(shown[i].node_of);
		xp_model_tree_free(&shown[i].tree);
	}
	return err;
}

/* Makes the model one of waits, with wakers as innermost frames. */
static int put_waits(FILE *out, struct xp_model *model, enum xp_model_group by, bool follows)
{
	int err = xp_waits_add_wakers(model) ?: xp_waits_as_samples(model) ?: xp_model_input_bound(model);

	return err ?: put_view(out, model, by, follows);
}

static void put_facts(FILE *out, const struct xp_export_page *page)
{
	const struct xp_facts *facts = page->facts;
	const struct xp_facts_summary *summary = xp_facts_summary(facts);
	char *comment = xp_facts_comment(facts), *machine = xp_facts_machine(facts);
	const char *command = comment ? strstr(comment, ": ") : NULL;
	char stacks[XP_UNWIND_ENDS_TEXT_BYTES];

	fputs("\"command\":", out);
	xp_json_text(out, command ? command + 2 : NULL);
	fputs(",\"machine\":", out);
	xp_json_text(out, machine);
	fprintf(out, ",\"startedMs\":%" PRIu64 ",\"fromNs\":%" PRIu64 ",\"lengthNs\":%" PRIu64,
		summary->started_ns / 1000000, summary->from_ns,
		page->is_sum ? page->models[0]->length_ns : summary->length_ns);
	if (machine && !page->is_sum)
		fprintf(out, ",\"lost\":%" PRIu64, summary->lost);
	if (!page->is_sum && xp_unwind_ends_text(stacks, summary->stack_ends)) {
		fputs(",\"stacks\":", out);
		xp_json_text(out, stacks);
		fprintf(out, ",\"lackMany\":%s", xp_unwind_ends_lack_many(summary->stack_ends) ? "true" : "false");
	}
	free(comment);
	free(machine);
}

int xp_export_html(FILE *out, const struct xp_export_page *page, const struct xp_export_options *options)
{
	int views = 0, err = 0;

	xp_html_put_start(out);
	putc('{', out);
	put_facts(out, page);
	fputs(",\n\"views\":[", out);
	for (size_t i = 0; !err && i < page->model_count; i++)
		if (page->models[i]->sample_count && page->models[i]->kind != XP_MODEL_WAITS)
			err = put_view(out, page->models[i], options->by, views++ > 0);
	for (size_t i = 0; !err && i < page->model_count; i++)
		if (page->models[i]->wait_count)
			err = put_waits(out, page->models[i], options->by, views++ > 0);
	if (!err && page->why && page->why->tree.calls[0] && page->why->tree.calls[1]) {
		fputs(views ? ",\n" : "", out);
		err = xp_html_put_tail(out, &page->why->tree);
	}
	putc(']', out);
	if (page->why)
		xp_html_put_why(out, page->why);
	if (page->why && !err)
		err = xp_html_put_slices(out, page->why, options->source);
	putc('}', out);
	xp_html_put_end(out);
	return err;
}
