// SPDX-License-Identifier: BSD-2-Clause
#include "model/samples.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "model/samples_gperf.h"
#include "model/samples_perf.h"

struct reading {
	struct xp_model *model;
	const struct xp_model_source *source;
	struct xp_code_places places;
	struct xp_perf_samples perf;
	struct xp_file_view view; /* of perf.data */
	bool has_perf;
	bool *broken;
};

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

/* Reads what precedes the samples. Without perf.data nothing is done. */
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

/* Samples of perf.data can be fewer: it ends when the disk is full, or when xprof is killed. */
static bool prefer_perf(const struct reading *reading)
{
	uint64_t written = xp_facts_summary(reading->source->facts)->samples;
	bool needed = xp_select_needs_threads(reading->source->select) || reading->source->waits;
	bool complete = reading->perf.count >= written;

	reading->model->waits = reading->perf.wait_count;
	if (reading->has_perf && !complete && reading->model->kind != XP_MODEL_WAITS)
		xp_warn("perf.data has %" PRIu64 " of %" PRIu64 " sample%s; %s", reading->perf.count, written,
			xp_plural_s(written),
			needed ? "the selection by threads or times is of these only"
			       : "the profiles are used, which do not tell threads apart");
	return reading->has_perf && (complete || needed);
}

static int read_samples(struct reading *reading)
{
	struct xp_model *model = reading->model;
	struct xp_model_jit_names jit = { xp_jit_codes_name, &reading->perf.jit };
	const struct xp_code_places *places = reading->source->places;
	int err;

	xp_model_describe(model, reading->source);
	err = places ? 0
		     : xp_code_places_read(&reading->places, reading->source->recorded, model->symbolizer,
					   reading->broken);
	if (!places)
		places = &reading->places;
	if (!err)
		err = look_at_perf(reading);
	if (err)
		return err;
	if (prefer_perf(reading)) {
		model->has_threads = model->has_cpus = true;
		err = xp_perf_samples_add(&reading->perf, &reading->view, model, reading->source, places);
	} else if (model->kind == XP_MODEL_WAITS) {
		xp_error(
		    "only perf.data has the waits of threads, and there is none; record with --off-cpu, and without "
		    "--no-perf-data");
		return -ENODATA;
	} else if (xp_select_needs_threads(reading->source->select)) {
		xp_error("only perf.data has the threads and times of samples, and there is none; record without "
			 "--no-perf-data");
		return -ENODATA;
	} else {
		err = xp_gperf_samples_add(model, reading->source, places);
	}
	if (!err && reading->source->read_other)
		err = xp_model_want_names(model) ?: reading->source->read_other(reading->source->other);
	return err ? err : xp_model_name(model, &jit);
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
	xp_code_places_free(&reading->places);
	free(reading);
	return err ? err : xp_select_stacks(source->select, model);
}
