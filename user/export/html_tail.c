// SPDX-License-Identifier: BSD-2-Clause
/* Writes the tree of slow calls against typical calls as a view of the page, like a comparison. */
#include "export/html_why.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/u64_map.h"
#include "model/json_data.h"

#define KIND_FUNCTION 0 /* as in page_data.js: user code */
#define KIND_STATE 3	/* no object */

struct tail {
	FILE *out;
	const struct xp_call_tree *tree;
	uint32_t *names;     /* index of the name of each node */
	uint32_t *first;     /* for each name: a node with this name */
	uint32_t count;	     /* number of names */
	uint64_t (*self)[2]; /* values of each node */
};

/* Each text has one address. A function with the same text as a state has the same name. */
static int number_names(struct tail *tail)
{
	struct xp_u64_map known = { 0 };
	int err = 0;

	for (uint32_t i = 1; !err && i < tail->tree->count; i++) {
		uint32_t *number = xp_u64_map_add(&known, (uintptr_t)tail->tree->nodes[i].text, tail->count);

		if (!number)
			err = -ENOMEM;
		else if (*number == tail->count)
			tail->first[tail->count++] = i;
		tail->names[i] = err ? 0 : *number;
	}
	xp_u64_map_free(&known);
	return err;
}

static void put_names(const struct tail *tail)
{
	fputs(",\"names\":[", tail->out);
	for (uint32_t i = 0; i < tail->count; i++) {
		fputs(i ? "," : "", tail->out);
		xp_json_text(tail->out, tail->tree->nodes[tail->first[i]].text);
	}
	fputs("],\n\"kinds\":[", tail->out);
	for (uint32_t i = 0; i < tail->count; i++)
		fprintf(tail->out, "%s%d", i ? "," : "",
			tail->tree->nodes[tail->first[i]].is_state ? KIND_STATE : KIND_FUNCTION);
	fputs("],\n\"in\":[", tail->out);
	for (uint32_t i = 0; i < tail->count; i++)
		fputs(i ? ",0" : "0", tail->out);
	fputs("],\n\"sources\":[", tail->out);
	for (uint32_t i = 0; i < tail->count; i++)
		fputs(i ? ",0" : "0", tail->out);
	fputs("],\"files\":[\"\"],\"objects\":[\"\"],\"groups\":[]", tail->out);
}

static void put_nodes(const struct tail *tail)
{
	const struct xp_call_tree *tree = tail->tree;
	struct xp_json_numbers numbers = { .out = tail->out };

	for (size_t i = 0; i < tree->count; i++)
		for (int side = 0; side <= 1; side++) {
			tail->self[i][side] += tree->nodes[i].ns[side];
			if (i)
				tail->self[tree->nodes[i].parent][side] -= tree->nodes[i].ns[side];
		}
	fprintf(tail->out, ",\n\"nodes\":%zu,\"period\":1,\"tree\":\"", tree->count);
	for (size_t i = 0; i < tree->count; i++) {
		if (i) {
			xp_json_number(&numbers, 1 + 2 * (uint64_t)tail->names[i]);
			xp_json_number(&numbers, i - tree->nodes[i].parent);
		}
		xp_json_number(&numbers, tail->self[i][0]);
		xp_json_signed(&numbers, (int64_t)(tail->self[i][1] - tail->self[i][0]));
	}
	xp_json_numbers_end(&numbers);
	fputs("\",\n\"certain\":[", tail->out);
	for (size_t i = 0; i < tree->count; i++)
		fprintf(tail->out, i ? ",%d" : "%d", tree->nodes[i].is_certain);
	putc(']', tail->out);
}

int xp_html_put_tail(FILE *out, const struct xp_call_tree *tree)
{
	struct tail tail = {
		.out = out,
		.tree = tree,
		.names = calloc(tree->count, sizeof(*tail.names)),
		.first = calloc(tree->count, sizeof(*tail.first)),
		.self = calloc(tree->count, sizeof(*tail.self)),
	};
	int err = tail.names && tail.first && tail.self ? number_names(&tail) : -ENOMEM;

	if (!err) {
		fprintf(out,
			"{\"kind\":\"tail\",\"by\":\"none\",\"dropped\":0,\"unit\":\"ns\",\"per\":\"call\","
			"\"sides\":[\"typical\",\"slow\"],\"scales\":[%.17g,%.17g]",
			1 / (double)tree->calls[0], 1 / (double)tree->calls[1]);
		put_names(&tail);
		put_nodes(&tail);
		putc('}', out);
	}
	free(tail.names);
	free(tail.first);
	free(tail.self);
	return err;
}
