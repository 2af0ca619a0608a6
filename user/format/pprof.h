/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes profiles in pprof's format: a gzip file with one protobuf message (google/pprof, proto/profile.proto; its
 * comments are the specification).
 *
 * The elements of a protobuf message may come in any order. So the writer serializes and compresses each element when
 * it is added, and memory use does not grow with the number of samples.
 *
 * Elements have IDs from 1, in the order of addition. Add an element before the elements that refer to it.
 * Functions return 0 or -errno: -ENOMEM, or an error of writing. After an error, the writer does nothing more and
 * returns the same error again.
 */
#ifndef XPROF_FORMAT_PPROF_H
#define XPROF_FORMAT_PPROF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define XP_PPROF_VALUES 2 /* values per sample */
#define XP_PPROF_LABELS_MAX 8

struct xp_pprof_value_type {
	const char *type;
	const char *unit;
};

/* Members that are 0 or NULL are omitted. */
struct xp_pprof_options {
	struct xp_pprof_value_type types[XP_PPROF_VALUES]; /* readers show the last type by default */
	struct xp_pprof_value_type period_type;
	uint64_t period;
	uint64_t time_ns; /* CLOCK_REALTIME */
	uint64_t duration_ns;
	const char *comment;
};

/*
 * A binary. pprof assumes that the first mapping is the program. Addresses are file addresses: for a mapping that
 * covers all addresses, pprof assumes that they are already adjusted (internal/elfexec, GetBase).
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

/* A code address. lines: the innermost function first; the last function is not inlined. */
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
	const uint64_t *locations; /* IDs, the innermost first */
	size_t location_count;
	uint64_t values[XP_PPROF_VALUES];
	struct xp_pprof_label labels[XP_PPROF_LABELS_MAX];
	size_t label_count;
};

struct xp_pprof;

/* Starts a profile. The caller keeps `out`, and calls xp_pprof_free(), also after an error. */
int xp_pprof_new(struct xp_pprof **pprof, FILE *out, const struct xp_pprof_options *options);
int xp_pprof_mapping(struct xp_pprof *pprof, const struct xp_pprof_mapping *mapping);
int xp_pprof_function(struct xp_pprof *pprof, const struct xp_pprof_function *function);
int xp_pprof_location(struct xp_pprof *pprof, const struct xp_pprof_location *location);
int xp_pprof_sample(struct xp_pprof *pprof, const struct xp_pprof_sample *sample);
/* Writes the end of the file, without which it is not a gzip file. */
int xp_pprof_finish(struct xp_pprof *pprof);
void xp_pprof_free(struct xp_pprof *pprof);

#endif
