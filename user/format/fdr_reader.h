/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRay FDR logs of versions 1 to 5, of either byte order: a strict reader, record by record.
 *
 * What it demands is the format: the grammar and the fields of LLVM's "XRay Flight Data Recorder Trace Format" for
 * version 1, and what XRay's runtime (compiler-rt/lib/xray/xray_fdr_log_*.h, xray_fdr_controller.h) writes for the
 * others. What the tools reject beyond that stands in fmt_fdr_rules.h.
 *
 * The bytes may be anything: the reader stays inside them, and its memory does not depend on them.
 */
#ifndef XPROF_FMT_FDR_READER_H
#define XPROF_FMT_FDR_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/fdr.h"
#include "format/violation.h"

/* pid, tid, cpu and tsc are those in force behind the record; of an event, tsc is its own. */
struct xp_fdr_record {
	uint64_t offset;
	bool is_function;
	uint8_t kind; /* enum xp_fdr_function_kind or enum xp_fdr_metadata_kind */
	bool has_cpu; /* cpu and tsc are known, behind the buffer's first NewCPUId */
	uint16_t cpu;
	int32_t pid; /* 0: the log does not say */
	int32_t tid;
	uint64_t tsc; /* absolute */
	union {
		struct {
			uint32_t fn_id;
			uint32_t delta;
		} function;
		struct {
			uint64_t seconds;
			uint32_t microseconds;
		} wall;
		uint64_t argument;
		uint64_t extents;
		struct {
			uint16_t type; /* of a typed event */
			uint32_t bytes;
			const uint8_t *data; /* in the file's bytes */
		} event;
		struct {
			uint64_t bytes;
			const uint8_t *data;
		} rest; /* of EndOfBuffer: what lies between it and the next buffer */
	};
};

enum xp_fdr_state {
	XP_FDR_AT_BUFFER, /* at the start of a buffer, or at the end of the file */
	XP_FDR_AT_NEW_BUFFER,
	XP_FDR_AT_WALL_CLOCK,
	XP_FDR_AT_FIRST_CPU,
	XP_FDR_IN_BODY,
};

struct xp_fdr_reader {
	struct xp_fdr_header header;
	bool big_endian;

	/* private */
	const uint8_t *bytes;
	uint64_t size;
	uint64_t pos;
	uint64_t buffer; /* where the current buffer begins */
	uint64_t end;	 /* and where its records must end */
	enum xp_fdr_state state;
	bool takes_arguments; /* the record before was an entry with arguments, or an argument */
	uint32_t nobodys;     /* records of function 0 */
	bool has_cpu;
	uint16_t cpu;
	int32_t pid;
	int32_t tid;
	uint64_t tsc;
};

/* Does this begin like an FDR log of a version that exists? */
bool xp_fdr_probe(const uint8_t *bytes, uint64_t size);

/* The bytes stay the caller's and must outlive the reader. 0, or -EBADMSG with *violation. */
int xp_fdr_reader_init(struct xp_fdr_reader *reader, const uint8_t *bytes, uint64_t size,
		       struct xp_violation *violation);

/* 1: *record is the next one. 0: the end. -EBADMSG: *violation says why; the reader goes no further. */
int xp_fdr_reader_next(struct xp_fdr_reader *reader, struct xp_fdr_record *record, struct xp_violation *violation);

/* "enter", "NewBuffer"... */
const char *xp_fdr_record_name(const struct xp_fdr_record *record);

#endif
