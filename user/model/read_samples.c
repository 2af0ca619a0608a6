// SPDX-License-Identifier: BSD-2-Clause
#include "model/read_samples.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_name.h"
#include "base/util.h"
#include "model/read_waits.h"
#include "model/recorder.h"
#include "model/samples_perf.h"

struct reading {
	struct xp_model *model;
	const struct xp_model_source *source;
	struct xp_perf_samples perf;
	struct xp_file_view view; /* the bytes of perf.data */
	bool has_perf;
	bool *broken;
};

struct xp_model_source xp_model_source_part(const struct xp_model_source *all, size_t directory)
{
	const struct xp_recorded_directory *part = &all->recorded->directories[directory];
	struct xp_model_source source = *all;

	source.directory = part->binaries->directory;
	source.facts = part->facts;
	source.offset_ns = part->offset_ns;
	return source;
}

void xp_model_describe(struct xp_model *model, const struct xp_model_source *source)
{
	const struct xp_facts_summary *summary = xp_facts_summary(source->facts);
	char *comment = xp_facts_comment(source->facts);

	model->period_ns = model->kind == XP_MODEL_SAMPLES ? summary->period_ns : 0;
	model->start_ns = summary->started_ns;
	model->length_ns = summary->length_ns;
	model->comment = comment ? xp_model_text(model, comment) : NULL;
	free(comment);
}

/* Reads everything before the samples. Does nothing without perf.data. */
static int look_at_perf(struct reading *reading)
{
	const char *directory = reading->source->directory;
	struct xp_violation violation;
	char path[PATH_MAX];
	int err;

	if (!directory || (size_t)snprintf(path, sizeof(path), "%s/" XP_PERF_DATA_NAME, directory) >= sizeof(path) ||
	    (err = xp_file_view_open(&reading->view, AT_FDCWD, path)) == -ENOENT)
		return 0;
	if (err) {
		xp_error("%s: cannot read it: %s", path, xp_file_view_error(err));
		*reading->broken = true;
		return 0;
	}
	reading->has_perf = true;
	err = xp_perf_samples_look(&reading->perf, &reading->view, directory, &violation, reading->broken);
	if (err != -EBADMSG)
		return err;
	xp_error("%s: 0x%" PRIx64 ": %s", path, violation.offset, violation.text);
	*reading->broken = true;
	return 0;
}

/* Reads the samples of profiles. */
static int read_profiles(struct reading *reading)
{
	const char *what = reading->model->kind == XP_MODEL_WAITS ? "waits of threads" : "threads and times of samples";

	if (reading->model->kind == XP_MODEL_WAITS || xp_select_needs_threads(reading->source->select)) {
		xp_error("only perf.data has the %s, and there is none", what);
		return -ENODATA;
	}
	return xp_gperf_samples_add(reading->model, reading->source, reading->broken);
}

static int read_samples(struct reading *reading)
{
	struct xp_model *model = reading->model;
	struct xp_model_jit_names jit = { xp_jit_codes_name, &reading->perf.jit };
	int err = look_at_perf(reading);

	xp_model_describe(model, reading->source);
	if (err)
		return err;
	if (reading->has_perf) {
		model->has_threads = model->has_cpus = true;
		err = xp_perf_samples_add(&reading->perf, &reading->view, model, reading->source);
	} else {
		err = read_profiles(reading);
	}
	err = err ?: xp_model_name(model, &jit);
	/* With only_jit_names, the reader of the exported file finds locks itself. */
	return err || model->only_jit_names ? err : xp_waits_find_locks(model) ?: xp_model_join_recorder(model);
}

int xp_model_read_samples(struct xp_model *model, const struct xp_model_source *source, bool *broken)
{
	struct reading *reading = calloc(1, sizeof(*reading));
	int err;

	if (!reading)
		return -ENOMEM;
	reading->model = model;
	reading->source = source;
	reading->broken = broken;
	err = read_samples(reading);
	if (reading->has_perf)
		xp_file_view_close(&reading->view);
	xp_perf_samples_free(&reading->perf);
	free(reading);
	return err ? err : xp_select_stacks(source->select, model);
}

/* The manifest lists each sampled program, and all kernel threads together as process 0. */
int xp_model_join_kernel_threads(struct xp_model *model, const struct xp_facts *facts)
{
	const char *name = xp_facts_comm(facts, 0, 1);
	struct xp_model_process all = { .image = 1, .name = name ? xp_model_text(model, name) : NULL };
	uint32_t joined = 0;
	int err = 0;

	if (!name)
		return 0;
	if (!all.name)
		return -ENOMEM;
	for (size_t i = 0; !err && i < model->thread_count; i++) {
		const struct xp_model_process *process = &model->processes[model->threads[i].process];

		if (xp_facts_comm(facts, process->pid, process->image))
			continue;
		err = xp_model_cgroup(model, xp_facts_cgroup(facts, 0, 1), &all)
			  ?: xp_model_process(model, &all, &joined);
		if (!err)
			model->threads[i].process = joined;
	}
	return err;
}
