/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A strict reader of the perf.data files that xprof writes, record by record. It skips the contents of other records. A
 * compressed record is followed by the records in it. A truncated file is read up to its end.
 *
 * Sources of the format: see perfdata.h. tests/check/perfdata_rules.h checks what perf requires in addition.
 *
 * The file is untrusted: the reader never reads outside its bytes. The cost of compressed records is bounded: memory as
 * in perfdata_zstd.h, time by limits on their expanded size and number.
 */
#ifndef XPROF_FORMAT_PERFDATA_READER_H
#define XPROF_FORMAT_PERFDATA_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "format/perfdata.h"
#include "format/perfdata_events.h"
#include "format/perfdata_put.h"
#include "format/perfdata_record.h"
#include "format/violation.h"

struct xp_perfdata_reader {
	struct xp_perfdata_header header;
	struct xp_perfdata_events events;

	/* private */
	const uint8_t *bytes;
	uint64_t size;
	uint64_t pos;
	uint64_t end;				       /* end of the records */
	uint64_t expanded_bytes, expanded_records;     /* decompressed so far */
	struct xp_perfdata_decompressor *decompressor; /* NULL: no compressed record so far */
	uint64_t compressed_offset;		       /* offset of the last compressed record */
};

/* A section after the records. */
struct xp_perfdata_feature_section {
	unsigned int feature; /* enum xp_perfdata_feature, or another */
	uint64_t offset;
	uint64_t bytes;
};

/* Returns true if the bytes begin like a little-endian perf.data file. */
bool xp_perfdata_probe(const uint8_t *bytes, uint64_t size);

/* The caller keeps the bytes, which must outlive the reader. Returns 0, or -EBADMSG and sets *violation. */
int xp_perfdata_reader_init(struct xp_perfdata_reader *reader, const uint8_t *bytes, uint64_t size,
			    struct xp_violation *violation);
/* Frees the reader's memory. */
void xp_perfdata_reader_end(struct xp_perfdata_reader *reader);
/* Returns 1 and the next record, 0 at the end, or -EBADMSG and sets *violation; do not call the reader again then. */
int xp_perfdata_reader_next(struct xp_perfdata_reader *reader, struct xp_perfdata_record *record,
			    struct xp_violation *violation);
/*
 * Finds the first feature with number `from` or above. Returns 1 and *section, or 0 if there is none, or -EBADMSG if
 * its section is outside the file.
 */
int xp_perfdata_reader_feature(const struct xp_perfdata_reader *reader, unsigned int from,
			       struct xp_perfdata_feature_section *section, struct xp_violation *violation);

#endif
