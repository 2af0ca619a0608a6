/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions in the jitdumps of a recording: addresses, times, names and lines. */
#ifndef XPROF_MODEL_JIT_CODES_H
#define XPROF_MODEL_JIT_CODES_H

#include "format/perfdata.h"
#include "model/code_lines.h"
#include "model/location_names.h"
#include "model/perf_tracks.h"

/* Further functions have no names. */
#define XP_JIT_CODES_MAX (4u << 20)

/* Empty if zeroed. */
struct xp_jit_codes {
	struct xp_jit_code *all;
	size_t count;
	/* private */
	struct xp_file_view *dumps;
	size_t room, dump_count, dump_room;
	struct xp_code_lines lines;
};

/*
 * Reads all jit-NUMBER.dump of a directory and adds their functions to the tracks of their processes. conversion: of
 * TSC times, from the perf.data; NULL: ignores dumps with such times. *broken: a dump is malformed; this reports it and
 * uses the records before the error. Returns 0 or -ENOMEM.
 */
int xp_jit_codes_read(struct xp_jit_codes *codes, const char *directory, struct xp_perf_tracks *tracks,
		      const struct xp_perfdata_conversion *conversion, bool *broken);
void xp_jit_codes_free(struct xp_jit_codes *codes);

/* For struct xp_model_jit_names: arg is the struct xp_jit_codes, location->jit the index of a span. */
int xp_jit_codes_name(void *arg, struct xp_model *model, const struct xp_model_location *location,
		      struct xp_source_frame *frame);

#endif
