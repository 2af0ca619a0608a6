/* SPDX-License-Identifier: BSD-2-Clause */
/* The samples of a perf.data file, for a model. */
#ifndef XPROF_MODEL_SAMPLES_PERF_H
#define XPROF_MODEL_SAMPLES_PERF_H

#include "base/file_view.h"
#include "format/perfdata_reader.h"
#include "model/jit_codes.h"
#include "model/perf_tracks.h"
#include "model/read_samples.h"

/* Empty if zeroed. */
struct xp_perf_samples {
	struct xp_perf_tracks tracks;
	struct xp_jit_codes jit;
	uint64_t count;	   /* samples in the file, without waits */
	uint64_t first_ns; /* time of the earliest sample */

	/* private */
	struct xp_perfdata_conversion conversion;
	bool converts;
	struct xp_perf_code *codes; /* code of each mapping */
	struct xp_u64_map kernel;   /* location by address */
};

/*
 * Reads everything except the samples, and counts the samples. directory: that of the jitdumps. *broken: a jitdump is
 * malformed. Returns 0, -EBADMSG with *violation set (uses the records before it), or -ENOMEM.
 */
int xp_perf_samples_look(struct xp_perf_samples *samples, const struct xp_file_view *view, const char *directory,
			 struct xp_violation *violation, bool *broken);
/* Adds the selected samples, up to the first error. Returns 0 or -ENOMEM. Name the model with samples->jit. */
int xp_perf_samples_add(struct xp_perf_samples *samples, const struct xp_file_view *view, struct xp_model *model,
			const struct xp_model_source *source);
void xp_perf_samples_free(struct xp_perf_samples *samples);

#endif
