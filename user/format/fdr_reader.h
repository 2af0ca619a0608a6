/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A strict reader of XRay FDR logs, record by record: little-endian, of version 1, which xprof writes, or version 5,
 * which XRay's runtime writes since LLVM 9. It rejects versions 2 to 4, of LLVM 7 and 8.
 *
 * For version 1, it requires the grammar and the fields of LLVM's "XRay Flight Data Recorder Trace Format". For version
 * 5, it requires what XRay's runtime writes (compiler-rt/lib/xray/xray_fdr_log_*.h, xray_fdr_controller.h).
 * tests/check/fdr_rules.h checks the additional requirements of the tools.
 *
 * The file is untrusted: the reader never reads outside its bytes, and its memory use does not depend on them.
 */
#ifndef XPROF_FORMAT_FDR_READER_H
#define XPROF_FORMAT_FDR_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "format/fdr.h"
#include "format/violation.h"

/* A record. pid, tid, cpu and tsc are the values after the record; for an event, tsc is the TSC of the event. */
struct xp_fdr_record {
	uint64_t offset;
	bool is_function;
	uint8_t kind; /* enum xp_fdr_function_kind or enum xp_fdr_metadata_kind */
	bool has_cpu; /* cpu and tsc are known: the buffer's first NewCPUId has been read */
	uint16_t cpu;
	int32_t pid; /* 0: not in the log */
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
			uint16_t type; /* type of a typed event */
			uint32_t bytes;
			const uint8_t *data; /* points into the file's bytes */
		} event;
		struct {
			uint64_t bytes;
			const uint8_t *data;
		} rest; /* EndOfBuffer: the bytes between it and the next buffer */
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

	/* private */
	const uint8_t *bytes;
	uint64_t size;
	uint64_t pos;
	uint64_t buffer; /* start of the current buffer */
	uint64_t end;	 /* end of its records */
	enum xp_fdr_state state;
	bool takes_arguments; /* the last record was an entry with arguments, or an argument */
	uint32_t nobodys;     /* records of function 0 */
	bool has_cpu;
	uint16_t cpu;
	int32_t pid;
	int32_t tid;
	uint64_t tsc;
};

/* Returns true if the bytes begin like an FDR log of version 1 or 5. */
bool xp_fdr_probe(const uint8_t *bytes, uint64_t size);

/* The caller keeps the bytes, which must outlive the reader. Returns 0, or -EBADMSG and sets *violation. */
int xp_fdr_reader_init(struct xp_fdr_reader *reader, const uint8_t *bytes, uint64_t size,
		       struct xp_violation *violation);

/* Returns 1 and the next record, 0 at the end, or -EBADMSG and sets *violation; do not call the reader again then. */
int xp_fdr_reader_next(struct xp_fdr_reader *reader, struct xp_fdr_record *record, struct xp_violation *violation);

/* "enter", "NewBuffer"... */
const char *xp_fdr_record_name(const struct xp_fdr_record *record);

#endif
