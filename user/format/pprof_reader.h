/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A strict reader of pprof's own profiles, of any maker. Source of the format: google/pprof, proto/profile.proto, and
 * "Protocol Buffers Encoding" for the bytes. It reads messages without protobuf-c, which builds the whole message in
 * memory, 50 bytes and more for each of its own, and accepts what the schema does not have.
 *
 * It requires what the schema and its comments require: known fields of the right type, UTF-8, texts, ids and
 * references that exist, ids of one element each, as many values a sample as there are sample types.
 *
 * The file is untrusted: memory is bounded by the limits below.
 */
#ifndef XPROF_FORMAT_PPROF_READER_H
#define XPROF_FORMAT_PPROF_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/violation.h"

/* Limits of this reader: for the decompressed file, and for the elements of a kind. */
#define XP_PPROF_BYTES_MAX (256u << 20)
#define XP_PPROF_ELEMENTS_MAX (8u << 20)

/* In the decompressed file, not terminated. */
struct xp_pprof_text {
	const char *text;
	uint32_t bytes;
};

/* Members named text are indexes into texts; 0 is "". */
struct xp_pprof_type {
	uint32_t type_text, unit_text;
};

struct xp_pprof_read_mapping {
	uint64_t id, start, limit, offset;
	uint32_t filename_text, build_id_text;
	bool has_functions, has_filenames, has_line_numbers, has_inline_frames;
};

struct xp_pprof_read_function {
	uint64_t id;
	uint32_t name_text, system_name_text, filename_text;
	int64_t start_line;
};

#define XP_PPROF_NO_MAPPING UINT32_MAX

struct xp_pprof_read_location {
	uint64_t id, address;
	uint32_t mapping; /* index, or XP_PPROF_NO_MAPPING */
	uint32_t first_line, line_count;
};

struct xp_pprof_read_line {
	uint32_t function; /* index */
	int64_t line;
};

struct xp_pprof_read_label {
	uint32_t key_text;
	uint32_t str_text; /* 0: a number */
	int64_t number;
	uint32_t unit_text;
};

/* Parts of a sample are read with xp_pprof_locations_next() and the like. */
struct xp_pprof_read_sample {
	uint64_t offset;
	const uint8_t *bytes;
	uint32_t size;
};

struct xp_pprof_profile {
	struct xp_pprof_text *texts;
	struct xp_pprof_type *types;
	struct xp_pprof_read_mapping *mappings;
	struct xp_pprof_read_function *functions;
	struct xp_pprof_read_location *locations;
	struct xp_pprof_read_line *lines;
	struct xp_pprof_read_sample *samples;
	uint32_t *comment_texts;
	size_t text_count, type_count, mapping_count, function_count, location_count, line_count, sample_count,
	    comment_text_count;
	int64_t time_ns, duration_ns, period;
	struct xp_pprof_type period_type;
	uint32_t default_type_text, drop_text, keep_text, doc_text;

	struct xp_pprof_index *index; /* private */
	uint8_t *bytes;		      /* the decompressed file */
	uint64_t size;
};

/* True if the bytes are a gzip file whose content begins like a profile. */
bool xp_pprof_probe(const uint8_t *bytes, uint64_t size);

/*
 * Reads a whole profile. Offsets in violations are of the decompressed file. The caller calls xp_pprof_profile_free(),
 * also after an error. Returns 0, -EBADMSG with *violation set, or -ENOMEM.
 */
int xp_pprof_read(struct xp_pprof_profile *profile, const uint8_t *bytes, uint64_t size,
		  struct xp_violation *violation);
void xp_pprof_profile_free(struct xp_pprof_profile *profile);

/* Iterates over the parts of a sample. */
struct xp_pprof_parts {
	const struct xp_pprof_profile *profile;
	const uint8_t *at, *end;
	const uint8_t *packed_end; /* of the packed numbers that at is in; NULL: none */
};

void xp_pprof_parts_start(struct xp_pprof_parts *parts, const struct xp_pprof_profile *profile, size_t sample);
/* These return false after the last one. *location: index; the innermost first. */
bool xp_pprof_locations_next(struct xp_pprof_parts *parts, uint32_t *location);
bool xp_pprof_values_next(struct xp_pprof_parts *parts, int64_t *value);
bool xp_pprof_labels_next(struct xp_pprof_parts *parts, struct xp_pprof_read_label *label);

#endif
