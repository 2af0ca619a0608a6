// SPDX-License-Identifier: BSD-2-Clause
#include "export/html_view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress_line.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "model/json_data.h"

/*
 * The page without a recording: page.html with page.css and the page_*.js in it, as the build joins them. "@DATA@"
 * stands where the recording goes, as JSON.
 */
static const unsigned char page[] = {
#include "export/page.inc"
};

static const char data_mark[] = "@DATA@";

/* Only functions in the tree are on the page: others were not selected. */
static void number_functions(struct xp_html_view *view, const struct xp_model_tree *tree)
{
	for (size_t i = 1; i < tree->count; i++) {
		uint32_t function = tree->nodes[i].function;

		if (function == XP_MODEL_NONE || view->numbers[function])
			continue;
		view->functions[view->function_count++] = function;
		view->numbers[function] = view->function_count;
	}
}

/* What put_list() writes of a function. */
static void put_name(const struct xp_html_view *view, const struct xp_model_function *function)
{
	xp_json_text(view->out, function->shown);
}

static void put_kind(const struct xp_html_view *view, const struct xp_model_function *function)
{
	/* page_data.js has two other kinds of frames before these. */
	fprintf(view->out, "%d", (int)function->kind + (function->kind >= XP_CODE_RECORDER ? 2 : 0));
}

static void put_object(const struct xp_html_view *view, const struct xp_model_function *function)
{
	fprintf(view->out, "%" PRIu32, function->object);
}

static void put_list(const struct xp_html_view *view, const char *name,
		     void (*put)(const struct xp_html_view *view, const struct xp_model_function *function))
{
	fprintf(view->out, ",\n\"%s\":[", name);
	for (uint32_t i = 0; i < view->function_count; i++) {
		if (i)
			putc(',', view->out);
		put(view, &view->model->functions[view->functions[i]]);
	}
	putc(']', view->out);
}

/* Each text once: files[0] is none. Functions of a file are often neighbours, so that the same number follows. */
static int put_sources(const struct xp_html_view *view)
{
	struct xp_u64_map known = { 0 };
	uint32_t count = 0;
	int err = 0;

	fputs(",\n\"files\":[\"\"", view->out);
	for (uint32_t i = 0; !err && i < view->function_count; i++) {
		const char *file = view->model->functions[view->functions[i]].file;

		if (!file || xp_u64_map_find(&known, (uintptr_t)file))
			continue;
		putc(',', view->out);
		xp_json_text(view->out, file);
		if (!xp_u64_map_add(&known, (uintptr_t)file, ++count))
			err = -ENOMEM;
	}
	fputs("],\n\"sources\":[", view->out);
	for (uint32_t i = 0; !err && i < view->function_count; i++) {
		const char *file = view->model->functions[view->functions[i]].file;
		const uint32_t *number = file ? xp_u64_map_find(&known, (uintptr_t)file) : NULL;

		fprintf(view->out, i ? ",%" PRIu32 : "%" PRIu32, number ? *number : 0);
	}
	putc(']', view->out);
	xp_u64_map_free(&known);
	return err;
}

/* Computes which share of the values each location has, as itself or as a caller. The caller frees the weights. */
static uint64_t *weigh_locations(const struct xp_model *model)
{
	uint64_t *weights = calloc(XP_MAX(model->location_count, (size_t)1), sizeof(*weights));

	for (size_t i = 0; weights && i < model->sample_count; i++)
		for (uint32_t s = model->samples[i].stack; s; s = model->stacks[s].callers)
			xp_add_capped(&weights[model->stacks[s].location], model->samples[i].values[1]);
	return weights;
}

/* The line of each function that most of its values are at; 0: unknown. */
static int put_lines(const struct xp_html_view *view)
{
	const struct xp_model *model = view->model;
	uint64_t *weights = weigh_locations(model), *most = calloc(view->function_count + 1, sizeof(*most));
	uint32_t *lines = calloc(view->function_count + 1, sizeof(*lines));
	int err = weights && most && lines ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < model->location_count; i++)
		for (uint32_t f = 0; f < model->locations[i].frame_count; f++) {
			const struct xp_model_frame *frame = &model->frames[model->locations[i].first_frame + f];
			uint32_t number = view->numbers[frame->function];

			if (!number || !frame->line || weights[i] <= most[number])
				continue;
			most[number] = weights[i];
			lines[number] = frame->line;
		}
	fputs(",\n\"lines\":[", view->out);
	for (uint32_t i = 1; !err && i <= view->function_count; i++)
		fprintf(view->out, i > 1 ? ",%" PRIu32 : "%" PRIu32, lines[i]);
	putc(']', view->out);
	free(weights);
	free(most);
	free(lines);
	return err;
}

static void put_objects(const struct xp_html_view *view)
{
	fputs(",\n\"objects\":[", view->out);
	for (size_t i = 0; i < view->model->object_count; i++) {
		if (i)
			putc(',', view->out);
		xp_json_text(view->out, view->model->objects[i].name);
	}
	putc(']', view->out);
}

static void put_groups(FILE *out, const struct xp_model_tree *tree)
{
	bool is_first = true;

	fputs(",\n\"groups\":[", out);
	for (size_t i = 0; i < tree->count; i++) {
		if (!tree->nodes[i].group)
			continue;
		if (!is_first)
			putc(',', out);
		is_first = false;
		xp_json_text(out, tree->nodes[i].group);
	}
	putc(']', out);
}

void xp_html_put_tree(const struct xp_html_view *view, const struct xp_model_tree *tree)
{
	struct xp_json_numbers numbers = { .out = view->out };
	struct xp_progress_line line;

	put_groups(view->out, tree);
	xp_progress_line_begin_writing(&line, view->out, tree->count);
	fprintf(view->out, ",\n\"nodes\":%zu,\"rare\":%zu,\"tree\":\"", tree->count, tree->rare_count);
	for (size_t i = 0; i < tree->count; i++) {
		const struct xp_model_node *node = &tree->nodes[i];

		xp_progress_line_step(&line, i);
		if (i) {
			uint64_t number = node->group ? 0 : view->numbers[node->function];

			xp_json_number(&numbers, number ? (number - 1) * 2 + node->is_inlined + 1 : 0);
			xp_json_number(&numbers, i - node->parent);
		}
		xp_json_number(&numbers, node->self[0]);
		xp_json_signed(&numbers, (int64_t)(node->self[1] - node->self[0] * view->period));
	}
	xp_progress_line_end(&line);
	xp_json_numbers_end(&numbers);
	putc('"', view->out);
}

int xp_html_view_begin(struct xp_html_view *view, const struct xp_model_tree *const *trees, size_t count)
{
	size_t room = XP_MAX(view->model->function_count, (size_t)1);
	int err;

	view->numbers = calloc(room, sizeof(*view->numbers));
	view->functions = calloc(room, sizeof(*view->functions));
	if (!view->numbers || !view->functions)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		number_functions(view, trees[i]);
	fprintf(view->out, ",\"period\":%" PRIu64, view->period);
	put_list(view, "names", put_name);
	put_list(view, "kinds", put_kind);
	put_list(view, "in", put_object);
	err = put_sources(view) ?: put_lines(view);
	put_objects(view);
	return err;
}

void xp_html_view_end(struct xp_html_view *view)
{
	free(view->numbers);
	free(view->functions);
}

static const unsigned char *find_mark(void)
{
	return memmem(page, sizeof(page), data_mark, strlen(data_mark));
}

void xp_html_put_start(FILE *out)
{
	fwrite(page, 1, (size_t)(find_mark() - page), out);
}

void xp_html_put_end(FILE *out)
{
	const unsigned char *after = find_mark() + strlen(data_mark);

	fwrite(after, 1, (size_t)(page + sizeof(page) - after), out);
}
