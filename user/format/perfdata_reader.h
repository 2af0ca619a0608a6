/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perf.data files, little-endian, of xprof and of perf itself: a strict reader, record by record. Those written to a
 * pipe and big-endian ones are refused with a sentence; of records and features that are not described below only
 * number, place and size are told. Behind a compressed record come those that were in it.
 *
 * Sources of the format: see fmt_perfdata.h. What perf demands beyond it stands in fmt_perfdata_rules.h.
 *
 * The bytes may be anything: the reader stays inside them. What it takes for compressed records is bounded: memory as
 * fmt_perfdata_zstd.h says, time by a limit for what they may expand to.
 */
#ifndef XPROF_FMT_PERFDATA_READER_H
#define XPROF_FMT_PERFDATA_READER_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/perfdata.h"
#include "format/perfdata_put.h"
#include "format/violation.h"

/* An event, and the section of its ids. */
struct xp_perfdata_event {
	struct perf_event_attr attr; /* what the file does not have of it is 0 */
	struct xp_perfdata_section ids;
};

/* Which event an id stands for. */
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
	uint64_t end;			/* of the records */
	bool by_id;			/* events differ in what their records hold: each has to be looked up */
	struct xp_perfdata_event event; /* of the record before */
	uint64_t event_id;
	struct xp_perfdata_id *ids; /* [id_count], in order of ids; NULL: of no event */
	size_t id_count;
	uint64_t expanded_bytes;	       /* of all compressed records so far */
	struct xp_perfdata_unpacker *unpacker; /* NULL: no compressed record has come */
	uint64_t packed_offset;		       /* of the last compressed one */
};

/* A record. What it does not tell is 0, and not among `has`. */
struct xp_perfdata_record {
	uint64_t offset;  /* of one out of a compressed record: that one's */
	bool is_unpacked; /* it is out of a compressed record, whose memory it has until the next is read */
	uint64_t bytes;	  /* with what follows it outside of its own size */
	uint32_t type;	  /* PERF_RECORD_*, enum xp_perfdata_user_record */
	uint16_t misc;
	uint64_t has; /* PERF_SAMPLE_TID, TIME, CPU, PERIOD, CALLCHAIN */
	int32_t pid;  /* of a sample; of others, as their trailer has it */
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
			const char *path;      /* in the file's bytes, with its zero */
		} map;
		struct { /* COMM */
			int32_t pid, tid;
			const char *name; /* in the file's bytes, with its zero */
		} comm;
		struct { /* FORK, EXIT */
			int32_t pid, ppid, tid, ptid;
			uint64_t time_ns;
		} task;
		struct { /* SAMPLE */
			uint64_t ip;
			uint64_t period;
			uint64_t chain_count;
			const uint8_t *chain; /* xp_perfdata_reader_chain() reads it */
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

/* A section behind the data. */
struct xp_perfdata_feature_section {
	unsigned int feature; /* enum xp_perfdata_feature, or another */
	uint64_t offset;
	uint64_t bytes;
};

/* Does this begin like a perf.data, of whatever byte order? */
bool xp_perfdata_probe(const uint8_t *bytes, uint64_t size);

/* The bytes stay the caller's and must outlive the reader. 0, or -EBADMSG with *violation. */
int xp_perfdata_reader_init(struct xp_perfdata_reader *reader, const uint8_t *bytes, uint64_t size,
			    struct xp_violation *violation);
/* Gives back what reading has taken. */
void xp_perfdata_reader_end(struct xp_perfdata_reader *reader);
/* index < event_count. */
void xp_perfdata_reader_event(const struct xp_perfdata_reader *reader, uint64_t index, struct xp_perfdata_event *event);
/* 1: *record is the next one. 0: the end. -EBADMSG: *violation says why; the reader goes no further. */
int xp_perfdata_reader_next(struct xp_perfdata_reader *reader, struct xp_perfdata_record *record,
			    struct xp_violation *violation);
/*
 * The first feature of number `from` or above: 1 and *section, 0 when there is none. -EBADMSG: its section is not in
 * the file.
 */
int xp_perfdata_reader_feature(const struct xp_perfdata_reader *reader, unsigned int from,
			       struct xp_perfdata_feature_section *section, struct xp_violation *violation);
/* The text of a feature such as XP_PERFDATA_HOSTNAME, in the file's bytes; NULL: it is not of that form. */
const char *xp_perfdata_reader_text(const struct xp_perfdata_reader *reader,
				    const struct xp_perfdata_feature_section *section);

/* "SAMPLE", NULL when the number has no name here. */
const char *xp_perfdata_record_name(uint32_t type);
const char *xp_perfdata_feature_name(unsigned int feature);

static inline uint64_t xp_perfdata_reader_chain(const struct xp_perfdata_record *record, uint64_t index)
{
	uint64_t address;

	memcpy(&address, record->sample.chain + 8 * index, sizeof(address));
	return address;
}

/* fmt_perfdata_records.c: fills *record, whose bytes are all there, but for offset and bytes. */
int xp_perfdata_record_parse(struct xp_perfdata_reader *reader, struct xp_perfdata_record *record, const uint8_t *bytes,
			     size_t size, struct xp_violation *violation);
/* The event whose ids have this one. False: none. */
bool xp_perfdata_reader_find(struct xp_perfdata_reader *reader, uint64_t id);

#endif
