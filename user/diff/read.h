/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads two recordings to compare: directories, or their files. */
#ifndef XPROF_DIFF_READ_H
#define XPROF_DIFF_READ_H

#include "diff/diff.h"
#include "diff/out.h"
#include "model/select.h"

struct xp_diff_options {
	enum xp_diff_basis basis;
	bool by_total;
	bool full_names;
	bool waits;	       /* instead of samples and calls */
	const char *instr_map; /* as in struct xp_model_source */
	struct xp_select select;
};

struct xp_diff_reading {
	struct xp_diff diffs[3]; /* by what is compared: enum xp_model_kind */
	struct xp_diff_pair pair;
	char *names[2]; /* of A and B, clean */
	bool broken;	/* a part of one cannot be read, which was reported */
};

/*
 * Prints errors. The caller calls xp_diff_reading_free(), also after an error. Returns 0 or -errno: -ENODATA if there
 * is nothing to compare, or another error after a message; -ENOMEM and -EAGAIN without one.
 */
int xp_diff_read(struct xp_diff_reading *reading, const char *const paths[2], const struct xp_diff_options *options);
void xp_diff_reading_free(struct xp_diff_reading *reading);

#endif
