/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A strict reader of gperftools CPU profiles, record by record: 64-bit, little-endian, as on the machines that xprof
 * runs on. It rejects profiles of 32-bit programs.
 *
 * Source of the format: gperftools' "CPU Profile Data File Structure" (docs/cpuprofile-fileformat.html).
 * tests/check/gperf_rules.h checks what the tools require in addition.
 *
 * The file is untrusted: the reader never reads outside its bytes, and its memory use does not depend on them.
 */
#ifndef XPROF_FORMAT_GPERF_READER_H
#define XPROF_FORMAT_GPERF_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "format/violation.h"

#define XP_GPERF_SLOT_BYTES 8
/*
 * Limits for a record, and for a line after the records. The format has no limits, but writers stay far below these
 * (gperftools: 254 PCs), and google-pprof fails above 65536 PCs. Without limits, reading a file with a hole would take
 * time in proportion to the size of the hole.
 */
#define XP_GPERF_PCS_MAX 65536
#define XP_GPERF_LINE_BYTES_MAX 65536

struct xp_gperf_reader {
	uint64_t header_words; /* header slots after the second one: 3, or more with undefined contents */
	uint64_t period_us;
	uint64_t padding; /* the slot after the period */

	/* private */
	const uint8_t *bytes;
	uint64_t size;
	uint64_t pos;
	bool in_text;
};

struct xp_gperf_sample {
	uint64_t offset;
	uint64_t count;
	uint64_t pc_count;  /* at least 1 */
	const uint8_t *pcs; /* read with xp_gperf_reader_pc() */
};

/* A mapping, from a line after the records. */
struct xp_gperf_line {
	uint64_t offset; /* offset of the line in the file */
	uint64_t start;
	uint64_t end; /* exclusive */
	uint64_t map_offset;
	char perms[5];
	const char *path; /* in the file's bytes */
	uint64_t path_bytes;
};

/* Returns true if the bytes begin like a profile. */
bool xp_gperf_probe(const uint8_t *bytes, uint64_t size);

/* The caller keeps the bytes, which must outlive the reader. Returns 0, or -EBADMSG and sets *violation. */
int xp_gperf_reader_init(struct xp_gperf_reader *reader, const uint8_t *bytes, uint64_t size,
			 struct xp_violation *violation);

/*
 * Returns 1 and the next record, 0 at the trailer, or -EBADMSG and sets *violation. Do not call the reader after an
 * error.
 */
int xp_gperf_reader_next(struct xp_gperf_reader *reader, struct xp_gperf_sample *sample,
			 struct xp_violation *violation);

static inline uint64_t xp_gperf_reader_pc(const struct xp_gperf_sample *sample, uint64_t index)
{
	return xp_bytes_get(sample->pcs + index * XP_GPERF_SLOT_BYTES, XP_GPERF_SLOT_BYTES);
}

/*
 * Call after the trailer. Returns 1 and the next mapping, 0 at the end of the file, or -EBADMSG as above. Skips other
 * lines, as the tools do.
 */
int xp_gperf_reader_line(struct xp_gperf_reader *reader, struct xp_gperf_line *line, struct xp_violation *violation);

#endif
