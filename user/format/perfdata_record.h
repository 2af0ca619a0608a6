/* SPDX-License-Identifier: BSD-2-Clause */
/* Parses the records of a perf.data file. */
#ifndef XPROF_FORMAT_PERFDATA_RECORD_H
#define XPROF_FORMAT_PERFDATA_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "format/perfdata_events.h"
#include "format/violation.h"

/* A record. Fields that it lacks are 0; `has` lists the fields that it has. */
struct xp_perfdata_record {
	uint64_t offset;      /* in the file; for a decompressed record, the offset of the compressed record */
	bool is_decompressed; /* true: the record's memory is valid only until the next read */
	uint64_t bytes;
	uint32_t type; /* PERF_RECORD_*, enum xp_perfdata_user_record */
	uint16_t misc;
	uint64_t has; /* PERF_SAMPLE_*: the fields of a sample; of other records, TID, TIME, CPU of the trailer */
	int32_t pid;  /* pid to cpu: from the sample, or from the trailer of another record */
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
			const uint8_t *raw;   /* data of the event `offcpu-time`: see wait_record.h */
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
 * Parses bytes[size], the record after its header. The caller has set the offset, bytes, type and misc of *record.
 * Makes the event of the record the current one. Returns 0, or -EBADMSG and sets *violation.
 */
int xp_perfdata_record_parse(struct xp_perfdata_record *record, struct xp_perfdata_events *events, const uint8_t *bytes,
			     size_t size, struct xp_violation *violation);

/* Returns true if `perf inject --jit` reads a jitdump from a mapping with this path. */
bool xp_perfdata_is_jit(const char *path);

static inline uint64_t xp_perfdata_record_chain(const struct xp_perfdata_record *record, uint64_t index)
{
	uint64_t address;

	memcpy(&address, record->sample.chain + 8 * index, sizeof(address));
	return address;
}

#endif
