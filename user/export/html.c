// SPDX-License-Identifier: BSD-2-Clause
/* One HTML page with the samples, the calls and the waits of a recording. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "export/export.h"
#include "export/html_view.h"
#include "export/html_why.h"
#include "model/input.h"
#include "model/json_data.h"
#include "model/model.h"
#include "model/read_waits.h"
#include "model/tree.h"

/*
 * ---- slots ----
 *
 * When the samples, calls or waits of a page were: their values in each part of the recording ("slot"), for as many
 * slots as a page of some megabytes has room for.
 */

#define SLOT_ENTRIES_MAX 60000 /* of 6 to 12 bytes */

struct entry {
	uint32_t slot;
	uint32_t node;
	uint32_t state; /* its index */
	uint64_t values[2];
};

static int compare(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;

	return xp_compare(left->slot, right->slot) ?: xp_compare(left->node, right->node)
						   ?: xp_compare(left->state, right->state);
}

/* Sorts them, and adds up those of one slot, node and state. Returns their number. */
static size_t add_up(struct entry *entries, size_t count)
{
	size_t kept = 0;

	qsort(entries, count, sizeof(*entries), compare);
	for (size_t i = 0; i < count; i++) {
		if (kept && !compare(&entries[kept - 1], &entries[i])) {
			entries[kept - 1].values[0] += entries[i].values[0];
			entries[kept - 1].values[1] += entries[i].values[1];
		} else {
			entries[kept++] = entries[i];
		}
	}
	return kept;
}

/* The index of a state; that of the last one if it is another. */
static uint32_t state_index(uint32_t state, const uint32_t *states, size_t count)
{
	uint32_t index = 0;

	while (index + 1 < count && states[index] != state)
		index++;
	return index;
}

static void put(FILE *out, const struct entry *entries, size_t count, uint64_t period, bool has_states)
{
	struct xp_json_numbers numbers = { .out = out };
	struct entry before = { 0 };

	for (size_t i = 0; i < count; i++) {
		const struct entry *entry = &entries[i];

		xp_json_number(&numbers, entry->slot - before.slot);
		xp_json_signed(&numbers, (int64_t)entry->node - before.node);
		if (has_states)
			xp_json_number(&numbers, entry->state);
		xp_json_number(&numbers, entry->values[0]);
		xp_json_signed(&numbers, (int64_t)(entry->values[1] - entry->values[0] * period));
		before = *entry;
	}
	xp_json_numbers_end(&numbers);
}

/*
 * Writes members of an object of JSON, from a comma on: slotNs, slotFromNs (when the first slot begins), entries, and
 * slots, in which each entry is
 *
 *	slot - that of the entry before; node - that of the entry before, signed; index of the state, if there are
 *	states; value[0]; value[1] - value[0] * period, signed
 *
 * Writes nothing if the model keeps no slots. states: of the model's samples. Returns 0 or -ENOMEM.
 */
static int put_slots(FILE *out, struct xp_model *model, struct xp_model_tree *tree, enum xp_model_group by,
		     const uint32_t *states, size_t state_count)
{
	uint64_t slot_ns = model->slot_ns, from_ns = slot_ns * model->first_slot;
	size_t count = model->sample_count;
	struct entry *entries;
	int err = 0;

	if (!slot_ns || !count)
		return 0;
	entries = calloc(count, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	for (size_t i = 0; !err && i < count; i++) {
		const struct xp_model_sample *sample = &model->samples[i];

		entries[i].slot =
		    (uint32_t)XP_MIN((XP_MAX(sample->time_ns, from_ns) - from_ns) / slot_ns, (uint64_t)XP_MODEL_SLOTS);
		entries[i].state = state_index(sample->state, states, state_count);
		entries[i].values[0] = sample->values[0];
		entries[i].values[1] = sample->values[1];
		err = xp_model_tree_node(tree, model, by, sample, &entries[i].node);
	}
	count = add_up(entries, count);
	while (!err && count > SLOT_ENTRIES_MAX && slot_ns * 2 > slot_ns && entries[count - 1].slot) {
		for (size_t i = 0; i < count; i++)
			entries[i].slot /= 2;
		slot_ns *= 2;
		count = add_up(entries, count);
	}
	if (!err) {
		fprintf(out, ",\n\"slotNs\":%" PRIu64 ",\"slotFromNs\":%" PRIu64 ",\"entries\":%zu,\"slots\":\"",
			slot_ns, from_ns, count);
		put(out, entries, count, model->period_ns, state_count > 0);
		putc('"', out);
	}
	free(entries);
	return err;
}

/* ---- the page ---- */

#define STATES_MAX 8 /* that read_waits.h tells apart */

/* The letters of the states that waits have. Returns their number. */
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

/* Adds up the time of each node itself in each state: count numbers a node. A further state counts as the last one. */
static int add_up_states(uint64_t *ns, const uint32_t *states, size_t count, struct xp_model *model,
			 struct xp_model_tree *tree, enum xp_model_group by)
{
	uint32_t node;
	int err = 0;

	for (size_t i = 0; !err && i < model->sample_count; i++) {
		uint32_t s = state_index(model->samples[i].state, states, count);

		err = xp_model_tree_node(tree, model, by, &model->samples[i], &node);
		if (!err)
			ns[node * count + s] += model->samples[i].values[1];
	}
	return err;
}

/* The states, and the times in them of the nodes that have any. */
static int put_states(FILE *out, struct xp_model *model, struct xp_model_tree *tree, enum xp_model_group by,
		      const uint32_t *states, size_t count)
{
	struct xp_json_numbers numbers = { .out = out };
	uint64_t *ns = calloc(tree->count * XP_MAX(count, (size_t)1), sizeof(*ns));
	int err = ns ? add_up_states(ns, states, count, model, tree, by) : -ENOMEM;

	fputs(",\n\"states\":[", out);
	for (size_t s = 0; s < count; s++) {
		fputs(s ? "," : "", out);
		xp_json_text(out, xp_waits_state(states[s]));
	}
	fputs("],\"byState\":\"", out);
	for (size_t i = 0; !err && i < tree->count; i++)
		for (size_t s = 0; tree->nodes[i].self[1] && s < count; s++)
			xp_json_number(&numbers, ns[i * count + s]);
	xp_json_numbers_end(&numbers);
	putc('"', out);
	free(ns);
	return err;
}

static int put_view(FILE *out, struct xp_model *model, enum xp_model_group by, bool follows)
{
	uint32_t states[STATES_MAX];
	size_t state_count = model->kind == XP_MODEL_WAITS ? find_states(model, states) : 0;
	struct xp_model_tree tree;
	int err;

	/* A call has no CPU. */
	if (model->kind == XP_MODEL_CALLS && by == XP_MODEL_BY_CPU)
		by = XP_MODEL_BY_THREAD;
	err = xp_model_tree_make(&tree, model, by);
	if (!err) {
		fprintf(out, "%s{\"kind\":\"%s\",\"by\":\"%s\",\"dropped\":%" PRIu64, follows ? ",\n" : "",
			xp_model_kind_name(model->kind), xp_model_group_names[by],
			model->kind == XP_MODEL_WAITS ? model->dropped_waits : model->dropped);
		err = xp_html_put_view(out, model, &tree, model->period_ns);
		if (!err && model->kind == XP_MODEL_WAITS)
			err = put_states(out, model, &tree, by, states, state_count);
		err = err ?: put_slots(out, model, &tree, by, states, state_count);
		putc('}', out);
	}
	xp_model_tree_free(&tree);
	return err;
}

/* Afterwards the model is one of waits, which have their wakers as innermost frames. */
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
