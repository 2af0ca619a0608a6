// SPDX-License-Identifier: BSD-2-Clause
#include "diff/out.h"

#include <inttypes.h>
#include <math.h>

#include "model/folded_stack.h"

int xp_diff_folded(FILE *out, const struct xp_diff *diff)
{
	struct xp_folded folded = { .out = out, .model = &diff->model, .tree = &diff->tree };
	double factor = diff->sides[1].scale > 0 ? diff->sides[0].scale / diff->sides[1].scale : 1;
	int err = 0;

	for (size_t i = 0; !err && i < diff->tree.count && !ferror(out); i++) {
		const uint64_t *self = diff->tree.nodes[i].self;
		double before = round((double)self[0] * factor);

		if (!self[1] && before < 1)
			continue;
		err = xp_folded_put(&folded, (uint32_t)i);
		fprintf(out, " %.0f %" PRIu64 "\n", before, self[1]);
	}
	xp_folded_free(&folded);
	return err;
}
