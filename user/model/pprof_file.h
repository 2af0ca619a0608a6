/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tables and the comparisons need of a file in pprof's own format. */
#ifndef XPROF_MODEL_PPROF_FILE_H
#define XPROF_MODEL_PPROF_FILE_H

#include "format/pprof_reader.h"
#include "model/symbolize.h"

/* Which of a sample's values counts samples or calls, and which is their time. */
struct xp_pprof_values {
	size_t count_index;
	size_t ns_index; /* the number of values: none */
	bool has_ns;
	bool is_calls;
	uint64_t period_ns; /* 0: unknown */
};

/* Whether this is a file with such a profile. */
bool xp_pprof_file_is_one(const char *path);

/*
 * Reads a file. Returns 0 or -errno: -EBADMSG, after a message, if the file is malformed or has no value that counts;
 * -ENOMEM, or an error of open(2). The caller calls xp_pprof_profile_free(), also after an error.
 */
int xp_pprof_file_read(struct xp_pprof_profile *profile, struct xp_pprof_values *values, const char *path);

/* Reads the count of a sample, and its time in ns. What is below 0 is 0. */
void xp_pprof_values_read(const struct xp_pprof_values *values, const struct xp_pprof_profile *profile, size_t sample,
			  uint64_t to[2]);

/*
 * A text of the profile, made clean and kept by the symbolizer. texts: those that were asked for before, NULL for the
 * others; as many as the profile has. NULL: out of memory.
 */
const char *xp_pprof_text(const struct xp_pprof_profile *profile, uint32_t index, const char **texts,
			  struct xp_symbolizer *symbolizer);

#endif
