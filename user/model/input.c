// SPDX-License-Identifier: BSD-2-Clause
#include "model/input.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "model/depth.h"
#include "model/part_list.h"
#include "model/read_waits.h"
#include "model/sum.h"

static void set_path(struct xp_model_input *input, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct stat st;

	input->is_directory = !stat(path, &st) && S_ISDIR(st.st_mode);
	if (input->is_directory)
		snprintf(input->directory, sizeof(input->directory), "%s", path);
	else
		snprintf(input->directory, sizeof(input->directory), "%.*s", slash ? XP_MAX((int)(slash - path), 1) : 1,
			 slash ? path : ".");
}

int xp_model_input_open(struct xp_model_input *input, const char *path)
{
	int err = xp_recorded_add(&input->recorded, path);

	set_path(input, path);
	input->facts = err ? NULL : xp_recorded_facts(&input->recorded, input->directory);
	return err;
}

int xp_model_input_open_parts(struct xp_model_input *input, struct xp_part_list *parts, struct xp_select *select)
{
	int err = xp_part_list_add(parts, &input->recorded, select, &input->broken);

	set_path(input,
		 parts->count > 1 && !err ? input->recorded.directories[0].binaries->directory : parts->paths[0]);
	input->facts = err ? NULL : input->recorded.directories[0].facts;
	return err;
}

void xp_model_input_close(struct xp_model_input *input)
{
	xp_recorded_free(&input->recorded);
	memset(input, 0, sizeof(*input));
}

struct xp_model_source xp_model_input_source(const struct xp_model_input *input)
{
	return (struct xp_model_source){
		.recorded = &input->recorded,
		.directory = input->is_directory ? input->directory : NULL,
		.facts = input->facts,
	};
}

int xp_model_input_read(struct xp_model *model, struct xp_model_input *input, const struct xp_model_source *source,
			enum xp_model_kind kind, enum xp_model_keep keep)
{
	bool has_lines = keep == XP_MODEL_KEEP_SUMS || keep == XP_MODEL_KEEP_TIMES || keep == XP_MODEL_KEEP_SLOTS;
	const struct xp_facts_summary *summary = source->facts ? xp_facts_summary(source->facts) : NULL;
	enum xp_name_detail detail = has_lines ? XP_NAMES_LINES : XP_NAMES_FUNCTIONS;
	int err = xp_model_init(model, kind, detail);

	model->keep_times = model->keep_hits = keep == XP_MODEL_KEEP_TIMES;
	if (keep == XP_MODEL_KEEP_SLOTS && summary && summary->length_ns && input->recorded.directory_count < 2) {
		model->slot_ns = summary->length_ns / XP_MODEL_SLOTS + 1;
		model->first_slot = summary->from_ns / model->slot_ns;
	}
	model->keep_waits |= kind == XP_MODEL_SAMPLES && has_lines;
	model->keep_durations = keep == XP_MODEL_KEEP_DURATIONS;
	model->full_names = source->full_names;
	err = err ?: xp_model_read_parts(model, detail, source, &input->broken);
	if (!err && kind == XP_MODEL_WAITS)
		err = xp_waits_as_samples(model);
	return err ?: xp_model_input_bound(model);
}

int xp_model_input_bound(struct xp_model *model)
{
	uint64_t dropped = model->kind == XP_MODEL_WAITS ? model->dropped_waits : model->dropped;
	const char *what = xp_model_kind_name(model->kind);
	struct xp_model_cut cut = { 0 };
	int err = xp_model_cut_depth(model, &cut);

	if (!err && dropped)
		xp_warn("%" PRIu64 " %s are missing: the recording has too many different stacks", dropped, what);
	if (!err && cut.samples)
		xp_warn("%" PRIu64 " %s have stacks of more than %" PRIu32 " functions: " XP_MODEL_DEEPER
			" stands for those between the outermost and the last one",
			cut.samples, what, cut.depth);
	return err;
}
