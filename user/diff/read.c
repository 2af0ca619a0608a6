// SPDX-License-Identifier: BSD-2-Clause
#include "diff/read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "model/input.h"

static int add_model(struct xp_diff_reading *reading, size_t side, const struct xp_model *model, const char *path)
{
	int err = xp_diff_add(&reading->diffs[model->kind], side, model);

	if (err == -E2BIG) {
		xp_error("%s: it has too many different stacks", path);
		err = -EBADMSG;
	}
	return err;
}

static int read_recording(struct xp_diff_reading *reading, size_t side, const char *path,
			  const struct xp_diff_options *options)
{
	struct xp_model_input input = { 0 };
	int err = xp_model_input_open(&input, path);

	for (int kind = options->waits ? XP_MODEL_WAITS : XP_MODEL_SAMPLES;
	     !err && kind <= (options->waits ? XP_MODEL_WAITS : XP_MODEL_CALLS); kind++) {
		struct xp_model_source source = xp_model_input_source(&input);
		struct xp_model model;

		source.select = &options->select;
		source.instr_map = options->instr_map;
		source.full_names = options->full_names;
		err = xp_model_input_read(&model, &input, &source, (enum xp_model_kind)kind, XP_MODEL_KEEP_DURATIONS);
		if (!err)
			err = add_model(reading, side, &model, path);
		xp_model_free(&model);
	}
	reading->broken |= input.broken;
	xp_model_input_close(&input);
	return err;
}

static char *clean_name(const char *path)
{
	size_t size = 4 * strlen(path) + 1;
	char *name = malloc(size);

	if (name)
		xp_clean_text(name, size, path);
	return name;
}

static int read_side(struct xp_diff_reading *reading, size_t side, const char *path,
		     const struct xp_diff_options *options)
{
	reading->names[side] = clean_name(path);
	if (!reading->names[side])
		return -ENOMEM;
	for (size_t i = 0; i < XP_ARRAY_SIZE(reading->diffs); i++)
		reading->diffs[i].sides[side].path = reading->names[side];
	return read_recording(reading, side, path, options);
}

static bool has_any(const struct xp_diff *diff)
{
	return diff->sides[0].total || diff->sides[1].total || diff->sides[0].calls || diff->sides[1].calls;
}

/* Only what both recorded is compared, so that nothing seems to be gone. */
static bool has_both(const struct xp_diff *diff)
{
	bool has[2];

	for (size_t i = 0; i < 2; i++)
		has[i] = diff->sides[i].total || diff->sides[i].calls;
	if (has[0] != has[1])
		xp_warn("%s has no %s, %s has: they are not compared", diff->sides[has[0]].path,
			xp_model_kind_name(diff->kind), diff->sides[!has[0]].path);
	return has[0] && has[1];
}

static int compare(struct xp_diff_reading *reading, const struct xp_diff_options *options)
{
	int err = 0;

	for (size_t i = 0; !err && i < XP_ARRAY_SIZE(reading->diffs); i++) {
		struct xp_diff *diff = &reading->diffs[i];

		if (!has_any(diff) || !has_both(diff))
			continue;
		err = xp_diff_make(diff, options->basis, options->by_total);
		if (!err && diff->basis == XP_DIFF_SHARES && options->basis != XP_DIFF_SHARES)
			xp_warn("shares are compared, as with --normalize: the length of a recording or the time "
				"between its "
				"samples is unknown");
		reading->pair.all[reading->pair.count++] = diff;
	}
	if (err || reading->pair.count)
		return err;
	xp_error("nothing to compare: %s", xp_select_is_given(&options->select) ? "nothing is selected in both"
					   : options->waits
					       ? "not both have waits; `xprof record --off-cpu` records them"
					       : "no samples or calls in both");
	return -ENODATA;
}

int xp_diff_read(struct xp_diff_reading *reading, const char *const paths[2], const struct xp_diff_options *options)
{
	int err = 0;

	memset(reading, 0, sizeof(*reading));
	for (size_t i = 0; !err && i < XP_ARRAY_SIZE(reading->diffs); i++)
		err = xp_diff_init(&reading->diffs[i], (enum xp_model_kind)i);
	for (size_t i = 0; !err && i < 2; i++)
		err = read_side(reading, i, paths[i], options);
	return err ? err : compare(reading, options);
}

void xp_diff_reading_free(struct xp_diff_reading *reading)
{
	for (size_t i = 0; i < XP_ARRAY_SIZE(reading->diffs); i++)
		xp_diff_free(&reading->diffs[i]);
	for (size_t i = 0; i < 2; i++)
		free(reading->names[i]);
}
