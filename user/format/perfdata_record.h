/* SPDX-License-Identifier: BSD-2-Clause */
/* A record of a perf.data file, and how to parse one. */
#ifndef XPROF_FORMAT_PERFDATA_RECORD_H
#define XPROF_FORMAT_PERFDATA_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "format/perfdata_events.h"
#include "format/violation.h"

/* A record. Fields that it does not have are 0 and not in `has`. */
struct xp_perfdata_record {
	uint64_t offset;      /* of a record inside a compressed record: the offset of the compressed record */
	bool is_decompressed; /* from a compressed record; its memory is valid until the next read */
	uint64_t bytes;	      /* including data after it that its size field does not count */
	uint32_t type;	      /* PERF_RECORD_*, enum xp_perfdata_user_record */
	uint16_t misc;
	uint64_t has; /* PERF_SAMPLE_*: the fields of a sample; of other records, TID, TIME, CPU of the trailer */
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
			const uint8_t *chain; /* read with xp_perfdata_record_chain() */
			const uint8_t *raw;   /* of the event `offcpu-time`: see wait_record.h */
			uint32_t raw_bytes;
		} sample;
		struct { /* KSYMBOL */
			uint64_t start;
			uint32_t bytes;
			uint16_t type, flags;
			const char *name; /* in the file's bytes, terminated */
		} symbol;
		struct { /* BPF_EVENT */
			uint16_t type;
			uint32_t id;
			const uint8_t *tag; /* XP_PERFDATA_BPF_TAG_BYTES */
		} bpf;
		struct { /* TIME_CONV */
			uint64_t shift, mult, zero;
			bool has_zero;
		} conversion;
	};
};

/*
 * Fills in *record, whose offset, bytes, type and misc are set. bytes[size] is what follows its header. The record's
 * event, which says what it holds, becomes the current one. Returns 0, or -EBADMSG and sets *violation.
 */
int xp_perfdata_record_parse(struct xp_perfdata_record *record, struct xp_perfdata_events *events, const uint8_t *bytes,
			     size_t size, struct xp_violation *violation);

/* True if `perf inject --jit` takes a mapping of this path for a jitdump marker. */
bool xp_perfdata_is_jit(const char *path);

static inline uint64_t xp_perfdata_record_chain(const struct xp_perfdata_record *record, uint64_t index)
{
	uint64_t address;

	memcpy(&address, record->sample.chain + 8 * index, sizeof(address));
	return address;
}

#endif
