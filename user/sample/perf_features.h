/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the end of a perf.data file, which describes the recording, the machine and the mapped files. */
#ifndef XPROF_SAMPLE_PERF_FEATURES_H
#define XPROF_SAMPLE_PERF_FEATURES_H

#include "base/clock.h"
#include "format/perfdata.h"
#include "sample/perf_build_ids.h"

/*
 * Writes the features and completes the file. known: build IDs of the mapped files; event: name of the event. Returns 0
 * or -errno of the writer.
 */
int xp_perf_features_write(struct xp_perfdata *perfdata, const struct xp_perf_build_ids *known,
			   const struct xp_clock *clock, const char *event);

#endif
