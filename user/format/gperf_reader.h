/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gperftools CPU profiles, of 32 and 64 bits and of either byte order: a strict reader, record by record.
 *
 * Source of the format: gperftools' "CPU Profile Data File Structure" (docs/cpuprofile-fileformat.html). What the tools
 * demand beyond that stands in fmt_gperf_rules.h.
 *
 * The bytes may be anything: the reader stays inside them, and its memory does not depend on them.
 */
#ifndef XPROF_FMT_GPERF_READER_H
#define XPROF_FMT_GPERF_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/violation.h"

/*
 * Of a record, and of a line behind the records. The format has no limits, but no writer goes near these (gperftools:
 * 254 PCs), google-pprof fails on more PCs, and without them a file with a hole keeps its readers busy for as long as
 * the hole is large.
 */
#define XP_GPERF_PCS_MAX 65536
#define XP_GPERF_LINE_BYTES_MAX 65536

struct xp_gperf_reader {
	unsigned int slot_bytes; /* 4 or 8 */
	bool big_endian;
	uint64_t header_words; /* slots of the header behind the second: 3, or more that nobody defines */
	uint64_t period_us;
	uint64_t padding; /* the slot behind the period */

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
	const uint8_t *pcs; /* xp_gperf_reader_pc() reads them */
};

enum xp_gperf_line_kind {
	XP_GPERF_LINE_MAP,
	XP_GPERF_LINE_BUILD, /* "build=PATH" */
	XP_GPERF_LINE_OTHER, /* which readers pass over */
};

struct xp_gperf_line {
	uint64_t offset;
	enum xp_gperf_line_kind kind;
	const char *text; /* the whole line, in the file's bytes, without its end */
	uint64_t bytes;
	/* of a mapping */
	uint64_t start;
	uint64_t end; /* exclusive */
	uint64_t map_offset;
	uint64_t inode;
	uint64_t dev_major;
	uint64_t dev_minor;
	char perms[5];
	/* of a mapping or build specifier, in the file's bytes; 0 bytes: none */
	const char *path;
	uint64_t path_bytes;
};

/* Does this begin like a profile? */
bool xp_gperf_probe(const uint8_t *bytes, uint64_t size);

/* The bytes stay the caller's and must outlive the reader. 0, or -EBADMSG with *violation. */
int xp_gperf_reader_init(struct xp_gperf_reader *reader, const uint8_t *bytes, uint64_t size,
			 struct xp_violation *violation);

/* 1: *sample is the next record. 0: the trailer. -EBADMSG: *violation says why; the reader goes no further. */
int xp_gperf_reader_next(struct xp_gperf_reader *reader, struct xp_gperf_sample *sample,
			 struct xp_violation *violation);

static inline uint64_t xp_gperf_reader_pc(const struct xp_gperf_reader *reader, const struct xp_gperf_sample *sample,
					  uint64_t index)
{
	const uint8_t *at = sample->pcs + index * reader->slot_bytes;
	uint64_t pc = 0;

	for (unsigned int i = 0; i < reader->slot_bytes; i++)
		pc |= (uint64_t)at[i] << 8 * (reader->big_endian ? reader->slot_bytes - 1 - i : i);
	return pc;
}

/* Behind the trailer: 1: *line is the next line. 0: the end of the file. -EBADMSG as above. */
int xp_gperf_reader_line(struct xp_gperf_reader *reader, struct xp_gperf_line *line, struct xp_violation *violation);

#endif
