/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A strict reader of jitdump files, record by record: versions 1 and 2, little-endian.
 *
 * It requires "JITDUMP specification version 2", except where the runtimes that write such files deviate from it (V8,
 * LLVM, PHP, CPython, Mono, .NET, Erlang, QEMU, perf's JVM agent). They pad records to a multiple of 8 bytes with
 * arbitrary bytes. They write .eh_frame before or after its header. A file name of one byte 0xff means the previous
 * name. V8 11 (Node.js 20) writes zero bytes inside file names, so a debug record has more bytes than its lines: the
 * reader reports the surplus. tests/check/jitdump_rules.h checks what perf requires in addition.
 *
 * The file is untrusted: the reader never reads outside its bytes, and its memory use does not depend on them. It reads
 * them once to check them and again to return them, so they must not change meanwhile. If another process can write to
 * the bytes, copy them first.
 */
#ifndef XPROF_FORMAT_JITDUMP_READER_H
#define XPROF_FORMAT_JITDUMP_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "format/jitdump.h"
#include "format/violation.h"

#define XP_JITDUMP_PADDING_BYTES_MAX 7

struct xp_jitdump_header {
	uint32_t version;
	uint32_t bytes;	   /* size of the header: 40, or more with undefined contents */
	uint32_t elf_mach; /* EM_* */
	uint32_t pid;
	uint64_t timestamp;
	uint64_t flags;
};

/* The order of .eh_frame and .eh_frame_hdr in a record. */
enum xp_jitdump_order {
	XP_JITDUMP_ONE_PART,	/* only one of .eh_frame and .eh_frame_hdr */
	XP_JITDUMP_FRAME_FIRST, /* as perf expects */
	XP_JITDUMP_HEADER_FIRST,
};

/* Pointers are into the file's bytes. */
struct xp_jitdump_record {
	uint64_t offset;
	uint64_t bytes; /* size of the whole record */
	uint32_t kind;	/* enum xp_jitdump_kind, or an undefined kind, which readers skip */
	uint64_t timestamp;
	union {
		struct {
			uint32_t pid;
			uint32_t tid;
			uint64_t vma;
			uint64_t code_addr;
			uint64_t code_size;
			uint64_t code_index;
			const char *name; /* terminated */
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
			const uint8_t *lines;	/* read with xp_jitdump_lines_next() */
			uint64_t surplus_bytes; /* after the lines; if it exceeds XP_JITDUMP_PADDING_BYTES_MAX, all
						   lines are untrustworthy */
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

/* True if the bytes begin like a jitdump. */
bool xp_jitdump_probe(const uint8_t *bytes, uint64_t size);

/* Reads the header from the first bytes. Returns 1, 0 if there are too few bytes, or -EBADMSG and sets *violation. */
int xp_jitdump_read_header(const uint8_t *bytes, uint64_t size, struct xp_jitdump_header *header,
			   struct xp_violation *violation);
/*
 * For readers of a file that grows: returns the size of a record. At least XP_JITDUMP_PREFIX_BYTES of the record must
 * be present. offset is its offset in the file. Returns 0, or -EBADMSG and sets *violation.
 */
int xp_jitdump_record_bytes(const uint8_t *record, uint64_t offset, uint32_t *bytes, struct xp_violation *violation);
/*
 * Reads a whole record. `bytes` must contain as many bytes as xp_jitdump_record_bytes() returns. Returns 0, or -EBADMSG
 * and sets *violation.
 */
int xp_jitdump_read_record(const uint8_t *bytes, uint64_t offset, struct xp_jitdump_record *record,
			   struct xp_violation *violation);
/*
 * Reads the fields and the name of a load record from its first bytes, for a record that is too long to keep. code is
 * NULL. Returns 0, or -EBADMSG and sets *violation; also if the name is not terminated in these bytes.
 */
int xp_jitdump_read_load_head(const uint8_t *bytes, uint64_t size, uint64_t offset, struct xp_jitdump_record *record,
			      struct xp_violation *violation);

/* Iterates over the lines of a debug record. */
struct xp_jitdump_lines {
	const uint8_t *at;
	uint64_t left;
	const char *file;
};
void xp_jitdump_lines_start(struct xp_jitdump_lines *lines, const struct xp_jitdump_record *record);
/* Returns false after the last line. The file name is resolved: it is never 0xff, unless there is no previous name. */
bool xp_jitdump_lines_next(struct xp_jitdump_lines *lines, struct xp_jitdump_line *line);

/* A whole file. */
struct xp_jitdump_reader {
	struct xp_jitdump_header header;

	/* private */
	const uint8_t *bytes;
	uint64_t size;
	uint64_t pos;
};

/* The caller keeps the bytes, which must outlive the reader. Returns 0, or -EBADMSG and sets *violation. */
int xp_jitdump_reader_init(struct xp_jitdump_reader *reader, const uint8_t *bytes, uint64_t size,
			   struct xp_violation *violation);
/* Returns 1 and the next record, 0 at the end, or -EBADMSG and sets *violation; do not call the reader again then. */
int xp_jitdump_reader_next(struct xp_jitdump_reader *reader, struct xp_jitdump_record *record,
			   struct xp_violation *violation);

/* "load", "move"... "unknown" */
const char *xp_jitdump_kind_name(uint32_t kind);

#endif
