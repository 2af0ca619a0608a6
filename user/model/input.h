/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens a directory or file of a recording that the command line names, and makes models of it. */
#ifndef XPROF_MODEL_INPUT_H
#define XPROF_MODEL_INPUT_H

#include <limits.h>
#include <stdbool.h>

#include "model/facts.h"
#include "model/recorded.h"
#include "model/read_samples.h"

struct xp_part_list;

struct xp_model_input {
	struct xp_recorded recorded;
	const struct xp_facts *facts; /* this and the directory: of the first part */
	char directory[PATH_MAX];     /* of the recording */
	bool is_directory;	      /* it was named itself */
	bool broken;		      /* a part of it cannot be read, which was reported */
};

/* *input: zeroed. Returns like xp_recorded_add(). Close it also after an error. */
int xp_model_input_open(struct xp_model_input *input, const char *path);
/* The same for a recording of several parts, which becomes one. Sets the times of *select. */
int xp_model_input_open_parts(struct xp_model_input *input, struct xp_part_list *parts, struct xp_select *select);
void xp_model_input_close(struct xp_model_input *input);

/* Returns a source that selects all of the input. Valid as long as the input. */
struct xp_model_source xp_model_input_source(const struct xp_model_input *input);

#define XP_MODEL_SLOTS 500

/* The details that a model keeps in addition to sums. Lines take the most time to find. */
enum xp_model_keep {
	XP_MODEL_KEEP_SUMS,  /* sums, and lines */
	XP_MODEL_KEEP_TIMES, /* times, and lines */
	XP_MODEL_KEEP_SLOTS, /* also lines, and sums in each of XP_MODEL_SLOTS parts of the recording, if its length is
				known */
	XP_MODEL_KEEP_FUNCTIONS, /* no lines */
	XP_MODEL_KEEP_DURATIONS, /* no lines */
};

/*
 * Makes a model of samples, calls or waits, with names and a bounded depth. Warns about omitted data. The caller frees
 * the model, also after an error. Returns like xp_model_read_samples().
 */
int xp_model_input_read(struct xp_model *model, struct xp_model_input *input, const struct xp_model_source *source,
			enum xp_model_kind kind, enum xp_model_keep keep);
/* Bounds the depth of a model whose waits have become samples, and warns about omitted data. Returns 0 or -ENOMEM. */
int xp_model_input_bound(struct xp_model *model);

#endif
