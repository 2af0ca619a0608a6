/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A strict reader of little-endian perf.data files of xprof and perf, record by record. It rejects files written to a
 * pipe and big-endian files with a message. For records and features that are not described below, it reports only
 * number, place and size. A compressed record is followed by the records in it.
 *
 * Sources of the format: see perfdata.h. perfdata_rules.h checks what perf requires in addition.
 *
 * The file is untrusted: the reader never reads outside its bytes. The cost of compressed records is bounded: memory as
 * in perfdata_zstd.h, time by a limit on their expanded size.
 */
#ifndef XPROF_FORMAT_PERFDATA_READER_H
#define XPROF_FORMAT_PERFDATA_READER_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/perfdata.h"
#include "format/perfdata_put.h"
#include "format/violation.h"

/* An event, and the section of its ids. */
struct xp_perfdata_event {
	struct perf_event_attr attr; /* fields that the file does not have are 0 */
	struct xp_perfdata_section ids;
};

/* Maps an id to its event. */
struct xp_perfdata_id {
	uint64_t id;
	uint64_t event;
};

struct xp_perfdata_reader {
	struct xp_perfdata_header header;
	uint64_t event_count; /* at least 1 */

	/* private */
	const uint8_t *bytes;
	uint64_t size;
	uint64_t pos;
	uint64_t end; /* of the records */
	bool by_id;   /* events have different record layouts: each record's event must be looked up */
	struct xp_perfdata_event event; /* of the last record */
	uint64_t event_id;
	struct xp_perfdata_id *ids; /* [id_count], sorted by id; NULL: no event has ids */
	size_t id_count;
	uint64_t expanded_bytes;		       /* of all compressed records so far */
	struct xp_perfdata_decompressor *decompressor; /* NULL: no compressed record so far */
	uint64_t compressed_offset;		       /* of the last compressed record */
};

/* A record. Fields that it does not have are 0 and not in `has`. */
struct xp_perfdata_record {
	uint64_t offset;      /* of a record in a compressed record: the offset of the latter */
	bool is_decompressed; /* from a compressed record; its memory is valid until the next read */
	uint64_t bytes;	      /* including data after it that its size field does not count */
	uint32_t type;	      /* PERF_RECORD_*, enum xp_perfdata_user_record */
	uint16_t misc;
	uint64_t has; /* PERF_SAMPLE_TID, TIME, CPU, PERIOD, CALLCHAIN */
	int32_t pid;  /* of a sample; of other records, from the trailer */
	int32_t tid;
	uint64_t time_ns;
	uint32_t cpu;
	union {
		struct { /* MMAP, MMAP2 */
			int32_t pid, tid;
			uint64_t start, bytes, file_offset;
			uint32_t maj, min;
			uint64_t inode, generation;
			uint32_t prot;
			const uint8_t *build_id;
			size_t build_id_bytes; /* 0: none */
			const char *path;      /* in the file's bytes, terminated */
		} map;
		struct { /* COMM */
			int32_t pid, tid;
			const char *name; /* in the file's bytes, terminated */
		} comm;
		struct { /* FORK, EXIT */
			int32_t pid, ppid, tid, ptid;
			uint64_t time_ns;
		} task;
		struct { /* SAMPLE */
			uint64_t ip;
			uint64_t period;
			uint64_t chain_count;
			const uint8_t *chain; /* read with xp_perfdata_reader_chain() */
		} sample;
		struct { /* LOST, LOST_SAMPLES */
			uint64_t count;
		} lost;
		struct { /* TIME_CONV */
			uint64_t shift, mult, zero;
			bool has_zero;
		} conversion;
	};
};

/* A section after the data. */
struct xp_perfdata_feature_section {
	unsigned int feature; /* enum xp_perfdata_feature, or another */
	uint64_t offset;
	uint64_t bytes;
};

/* True if the bytes begin like a perf.data file of either byte order. */
bool xp_perfdata_probe(const uint8_t *bytes, uint64_t size);

/* The caller keeps the bytes, which must outlive the reader. Returns 0, or -EBADMSG and sets *violation. */
int xp_perfdata_reader_init(struct xp_perfdata_reader *reader, const uint8_t *bytes, uint64_t size,
			    struct xp_violation *violation);
/* Frees the reader's memory. */
void xp_perfdata_reader_end(struct xp_perfdata_reader *reader);
/* index < event_count. */
void xp_perfdata_reader_event(const struct xp_perfdata_reader *reader, uint64_t index, struct xp_perfdata_event *event);
/* Returns 1 and the next record, 0 at the end, or -EBADMSG and sets *violation; do not call the reader again then. */
int xp_perfdata_reader_next(struct xp_perfdata_reader *reader, struct xp_perfdata_record *record,
			    struct xp_violation *violation);
/*
 * The first feature with number `from` or above. Returns 1 and *section, 0 if there is none, or -EBADMSG if its section
 * is not in the file.
 */
int xp_perfdata_reader_feature(const struct xp_perfdata_reader *reader, unsigned int from,
			       struct xp_perfdata_feature_section *section, struct xp_violation *violation);
/*
 * The text of a feature such as XP_PERFDATA_HOSTNAME, in the file's bytes. Returns NULL if it does not have that form.
 */
const char *xp_perfdata_reader_text(const struct xp_perfdata_reader *reader,
				    const struct xp_perfdata_feature_section *section);

/* The name, such as "SAMPLE", or NULL if the number is unknown. */
const char *xp_perfdata_record_name(uint32_t type);
const char *xp_perfdata_feature_name(unsigned int feature);

static inline uint64_t xp_perfdata_reader_chain(const struct xp_perfdata_record *record, uint64_t index)
{
	uint64_t address;

	memcpy(&address, record->sample.chain + 8 * index, sizeof(address));
	return address;
}

/* perfdata_records.c: fills in *record except offset and bytes. All of its bytes are present. */
int xp_perfdata_record_parse(struct xp_perfdata_reader *reader, struct xp_perfdata_record *record, const uint8_t *bytes,
			     size_t size, struct xp_violation *violation);
/* Makes the event with this id current. Returns false if there is none. */
bool xp_perfdata_reader_find(struct xp_perfdata_reader *reader, uint64_t id);

#endif
