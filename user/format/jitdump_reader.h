/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * jitdump files of versions 1 and 2, of either byte order: a strict reader, record by record.
 *
 * What it demands is the format: "JITDUMP specification version 2", as far as the runtimes that write such files (V8,
 * LLVM, PHP, CPython, Mono, .NET, Erlang, QEMU, perf's agent for the JVM) agree with it. They pad records to a multiple
 * of 8 bytes, with anything; they put .eh_frame before or behind its header; and a file name of one byte 0xff stands
 * for the one before. V8 11 (Node.js 20) writes file names with zero bytes in them, so that a debug record has more
 * bytes than its lines: their number is told. What perf demands beyond that stands in fmt_jitdump_rules.h.
 *
 * The bytes may be anything: the reader stays inside them, and its memory does not depend on them. It reads them once
 * to judge them and again to give them away, so they must not change meanwhile: copy what another process can write.
 */
#ifndef XPROF_FMT_JITDUMP_READER_H
#define XPROF_FMT_JITDUMP_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/jitdump.h"
#include "format/violation.h"

#define XP_JITDUMP_PADDING_BYTES_MAX 7

struct xp_jitdump_header {
	bool big_endian;
	uint32_t version;
	uint32_t bytes;	   /* of the header: 40, or more that nobody defines */
	uint32_t elf_mach; /* EM_* */
	uint32_t pid;
	uint64_t timestamp;
	uint64_t flags;
};

/* In which order a record has .eh_frame and .eh_frame_hdr. */
enum xp_jitdump_order {
	XP_JITDUMP_ONE_PART,	/* only one of them */
	XP_JITDUMP_FRAME_FIRST, /* as perf wants it */
	XP_JITDUMP_HEADER_FIRST,
};

/* Pointers are into the file's bytes. */
struct xp_jitdump_record {
	uint64_t offset;
	uint64_t bytes; /* all of the record */
	uint32_t kind;	/* enum xp_jitdump_kind, or one that nobody defines, which readers skip */
	uint64_t timestamp;
	union {
		struct {
			uint32_t pid;
			uint32_t tid;
			uint64_t vma;
			uint64_t code_addr;
			uint64_t code_size;
			uint64_t code_index;
			const char *name; /* ends with a 0 */
			const uint8_t *code;
		} load;
		struct {
			uint32_t pid;
			uint32_t tid;
			uint64_t vma;
			uint64_t old_code_addr;
			uint64_t new_code_addr;
			uint64_t code_size;
			uint64_t code_index;
		} move;
		struct {
			uint64_t code_addr;
			uint64_t line_count;
			const uint8_t *lines;	/* xp_jitdump_lines_next() reads them */
			uint64_t surplus_bytes; /* behind them: above XP_JITDUMP_PADDING_BYTES_MAX, believe no line */
		} debug;
		struct {
			const uint8_t *eh_frame;
			uint64_t eh_frame_bytes;
			const uint8_t *eh_frame_hdr;
			uint64_t eh_frame_hdr_bytes;
			uint64_t mapped_bytes;
			enum xp_jitdump_order order;
		} unwinding;
	};
};

/* Does this begin like a jitdump? */
bool xp_jitdump_probe(const uint8_t *bytes, uint64_t size);

/* 1: *header is read from the first bytes. 0: there are fewer than it takes. -EBADMSG with *violation. */
int xp_jitdump_read_header(const uint8_t *bytes, uint64_t size, struct xp_jitdump_header *header,
			   struct xp_violation *violation);
/*
 * How long the record is, of which at least XP_JITDUMP_PREFIX_BYTES are there: for who reads a file that grows.
 * offset: of the record in the file. -EBADMSG with *violation.
 */
int xp_jitdump_record_bytes(const struct xp_jitdump_header *header, const uint8_t *record, uint64_t offset,
			    uint32_t *bytes, struct xp_violation *violation);
/* Reads a whole record, of which xp_jitdump_record_bytes() are there. 0, or -EBADMSG with *violation. */
int xp_jitdump_read_record(const struct xp_jitdump_header *header, const uint8_t *bytes, uint64_t offset,
			   struct xp_jitdump_record *record, struct xp_violation *violation);
/*
 * Of a load record that is too long to be kept: the fields and the name from its first bytes. code is NULL. -EBADMSG
 * also when the name does not end there.
 */
int xp_jitdump_read_load_head(const struct xp_jitdump_header *header, const uint8_t *bytes, uint64_t size,
			      uint64_t offset, struct xp_jitdump_record *record, struct xp_violation *violation);

/* The lines of a record of debug information, one after the other. */
struct xp_jitdump_lines {
	const uint8_t *at;
	uint64_t left;
	bool big_endian;
	const char *file;
};
void xp_jitdump_lines_start(struct xp_jitdump_lines *lines, const struct xp_jitdump_header *header,
			    const struct xp_jitdump_record *record);
/* False behind the last. The file's name is the one that is meant, never 0xff, unless there is none before. */
bool xp_jitdump_lines_next(struct xp_jitdump_lines *lines, struct xp_jitdump_line *line);

/* A whole file. */
struct xp_jitdump_reader {
	struct xp_jitdump_header header;

	/* private */
	const uint8_t *bytes;
	uint64_t size;
	uint64_t pos;
};

/* The bytes stay the caller's and must outlive the reader. 0, or -EBADMSG with *violation. */
int xp_jitdump_reader_init(struct xp_jitdump_reader *reader, const uint8_t *bytes, uint64_t size,
			   struct xp_violation *violation);
/* 1: *record is the next one. 0: the end. -EBADMSG: *violation says why; the reader goes no further. */
int xp_jitdump_reader_next(struct xp_jitdump_reader *reader, struct xp_jitdump_record *record,
			   struct xp_violation *violation);

/* "load", "move"... "unknown" */
const char *xp_jitdump_kind_name(uint32_t kind);

#endif
