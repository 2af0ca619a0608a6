/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses of a model's code in gperftools profiles (profiles.h), and the files in sym/ that name it. All profiles
 * of a model share them.
 */
#ifndef XPROF_EXPORT_SYMBOL_RANGES_H
#define XPROF_EXPORT_SYMBOL_RANGES_H

#include "format/gperf.h"
#include "model/model.h"
#include "store/sym_dir.h"

/* Empty if zeroed. */
struct xp_symbol_ranges {
	uint64_t *pcs;			 /* PC of each location of the model */
	struct xp_gperf_object *objects; /* one for each object of the model; they do not overlap */
	uint32_t *order;		 /* indexes of the objects with locations, sorted by start */
	size_t count;			 /* number of objects with locations */
	/* private */
	struct xp_sym_dir dir;
	char **paths; /* path of each object */
	size_t path_count;
};

/*
 * model: named. dir_fd: the directory of the recording, which stays the caller's. A file that cannot be made is
 * reported, and its code has no names then. Returns 0 or -ENOMEM. The caller calls xp_symbol_ranges_free() in any case.
 */
int xp_symbol_ranges_make(struct xp_symbol_ranges *ranges, const struct xp_model *model, int dir_fd);
void xp_symbol_ranges_free(struct xp_symbol_ranges *ranges);

#endif
