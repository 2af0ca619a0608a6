/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes pprof's own profiles: a gzip file of one protobuf message (google/pprof, proto/profile.proto; its comments are
 * the specification).
 *
 * A message may be written in pieces, since the parts of repeated fields may come in any order: so each element is
 * packed and compressed when it is added, and memory does not grow with the number of samples.
 *
 * Elements have ids from 1 in the order in which they are added. An element is added before those that refer to it.
 * Functions return 0 or -errno: -ENOMEM, or an error of writing. After an error, the writer does nothing more and
 * returns the same error again.
 */
#ifndef XPROF_FORMAT_PPROF_H
#define XPROF_FORMAT_PPROF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define XP_PPROF_VALUES 2 /* of each sample */
#define XP_PPROF_LABELS_MAX 8

struct xp_pprof_value_type {
	const char *type;
	const char *unit;
};

/* A member that is 0 or NULL is left out. */
struct xp_pprof_options {
	struct xp_pprof_value_type types[XP_PPROF_VALUES]; /* readers show the last one by default */
	struct xp_pprof_value_type period_type;
	uint64_t period;
	uint64_t time_ns; /* CLOCK_REALTIME */
	uint64_t duration_ns;
	const char *comment;
};

/*
 * An object. pprof assumes that the first one is the program. Its addresses are those of the file: pprof assumes that a
 * mapping of all addresses has adjusted addresses already (internal/elfexec, GetBase).
 */
struct xp_pprof_mapping {
	const char *filename;
	const char *build_id; /* hexadecimal; NULL: unknown */
	/* Set this only if all locations have functions: pprof then does not look up missing ones. */
	bool has_functions;
	bool has_filenames;
	bool has_line_numbers;
	bool has_inline_frames;
};

struct xp_pprof_function {
	const char *name;
	const char *system_name; /* mangled */
	const char *filename;	 /* NULL: unknown */
};

struct xp_pprof_line {
	uint64_t function;
	uint32_t line; /* 0: unknown */
};

/* Lines: the innermost function first; the last one is not inlined. */
struct xp_pprof_location {
	uint64_t mapping;
	uint64_t address; /* 0: unknown */
	const struct xp_pprof_line *lines;
	size_t line_count;
};

struct xp_pprof_label {
	const char *key;
	const char *text;
};

struct xp_pprof_sample {
	const uint64_t *locations; /* the innermost first */
	size_t location_count;
	uint64_t values[XP_PPROF_VALUES];
	struct xp_pprof_label labels[XP_PPROF_LABELS_MAX];
	size_t label_count;
};

struct xp_pprof;

/* The caller keeps out, whose errors show in the results, and calls xp_pprof_free(), also after an error. */
int xp_pprof_new(struct xp_pprof **pprof, FILE *out, const struct xp_pprof_options *options);
int xp_pprof_mapping(struct xp_pprof *pprof, const struct xp_pprof_mapping *mapping);
int xp_pprof_function(struct xp_pprof *pprof, const struct xp_pprof_function *function);
int xp_pprof_location(struct xp_pprof *pprof, const struct xp_pprof_location *location);
int xp_pprof_sample(struct xp_pprof *pprof, const struct xp_pprof_sample *sample);
/* Writes the end. Without it, the file is not a gzip file. */
int xp_pprof_finish(struct xp_pprof *pprof);
void xp_pprof_free(struct xp_pprof *pprof);

#endif
