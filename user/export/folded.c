// SPDX-License-Identifier: BSD-2-Clause
/* A line for each stack (folded_stack.h), then a blank and a number: of samples, or of ns in calls or waits. */
#include "export/export.h"

#include <inttypes.h>

#include "base/progress_line.h"
#include "model/folded_stack.h"

int xp_export_folded(FILE *out, struct xp_model *model, const struct xp_export_options *options)
{
	size_t which = model->kind == XP_MODEL_SAMPLES ? 0 : 1;
	struct xp_model_tree tree;
	struct xp_folded folded = { .out = out, .model = model, .tree = &tree };
	struct xp_progress_line line;
	int err = xp_model_tree_make(&tree, model, options->by);

	xp_progress_line_begin_writing(&line, out, err ? 0 : tree.count);
	for (size_t i = 0; !err && i < tree.count && !ferror(out); i++) {
		uint64_t value = tree.nodes[i].self[which];

		xp_progress_line_step(&line, i);
		if (!value)
			continue;
		err = xp_folded_put(&folded, (uint32_t)i);
		fprintf(out, " %" PRIu64 "\n", value);
	}
	xp_progress_line_end(&line);
	xp_folded_free(&folded);
	xp_model_tree_free(&tree);
	return err;
}
