/* SPDX-License-Identifier: BSD-2-Clause */
/* Names the locations of a model. */
#ifndef XPROF_MODEL_LOCATION_NAMES_H
#define XPROF_MODEL_LOCATION_NAMES_H

#include "model/model.h"

/* The source of the names of JIT functions. */
struct xp_model_jit_names {
	/* Sets the frame of a location with `jit`. Returns 0 or -ENOMEM. */
	int (*name)(void *arg, struct xp_model *model, const struct xp_model_location *location,
		    struct xp_source_frame *frame);
	void *arg;
};

/*
 * Sets the frames and functions of all locations. Call it once, after the last xp_model_location(). jit may be NULL.
 * Returns 0, -ENOMEM, or an error of xp_symbolizer_run().
 */
int xp_model_name(struct xp_model *model, const struct xp_model_jit_names *jit);

/* Finds or adds a location that is not code, with this name and object. Returns 0, -ENOMEM or -E2BIG. */
int xp_model_location_named(struct xp_model *model, const char *name, enum xp_code_kind kind, uint32_t *location);

#endif
