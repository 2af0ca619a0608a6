/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * jitdump: the writer, of little-endian files for x86-64.
 *
 * Source of the format: "JITDUMP specification version 2" (tools/perf/Documentation/jitdump-specification.txt). Its one
 * reader that matters, `perf inject --jit` (tools/perf/util/jitdump.c, genelf.c), departs from the text in two points:
 * it takes no version above 1, with unwinding records all the same, and it wants .eh_frame before .eh_frame_hdr. So the
 * writer does, unless it is told to keep to the letter.
 *
 * Files only ever grow, record by record. Should a write fail, the file is cut behind a whole record, and so stays
 * readable.
 *
 * Errors: 0 or a negative errno. -EINVAL, for a record that the format cannot hold, changes nothing; after any other
 * one the writer does nothing more and says the same again.
 */
#ifndef XPROF_FMT_JITDUMP_H
#define XPROF_FMT_JITDUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_JITDUMP_MAGIC 0x4a695444u /* "JiTD" */
#define XP_JITDUMP_HEADER_BYTES 40u
#define XP_JITDUMP_PREFIX_BYTES 16u	       /* with which each record begins: id, size, timestamp */
#define XP_JITDUMP_FLAG_ARCH_TIMESTAMP 1ull    /* times are the TSC's, not CLOCK_MONOTONIC's */
#define XP_JITDUMP_PERF_VERSION 1u	       /* what perf takes */
#define XP_JITDUMP_TEXT_VERSION 2u	       /* what the specification says */
#define XP_JITDUMP_RECORD_BYTES_MAX UINT32_MAX /* the size is a field of 32 bits */

enum xp_jitdump_kind {
	XP_JITDUMP_LOAD = 0,
	XP_JITDUMP_MOVE = 1,
	XP_JITDUMP_DEBUG_INFO = 2,
	XP_JITDUMP_CLOSE = 3,
	XP_JITDUMP_UNWINDING_INFO = 4,
};

struct xp_jitdump_options {
	uint32_t pid;
	uint64_t timestamp; /* of the file's beginning */
	bool arch_timestamp;
	bool to_the_letter; /* version 2, .eh_frame_hdr before .eh_frame; perf rejects it */
};

struct xp_jitdump_load {
	uint32_t pid;
	uint32_t tid;
	uint64_t code_addr; /* also written as the vma */
	uint64_t code_size;
	uint64_t code_index; /* perf writes jitted-<pid>-<code_index>.so: once only in a file */
	const char *name;
	const uint8_t *code; /* code_size bytes */
};

struct xp_jitdump_move {
	uint32_t pid;
	uint32_t tid;
	uint64_t old_code_addr;
	uint64_t new_code_addr; /* also written as the vma */
	uint64_t code_size;
	uint64_t code_index;
};

struct xp_jitdump_line {
	uint64_t address; /* in the process */
	uint32_t line;
	uint32_t discriminator;
	const char *file;
};

/*
 * perf lays the code at an address A, .eh_frame at A + the code's size rounded up to 8, and .eh_frame_hdr directly
 * behind it: what is relative in either must be so to these places.
 */
struct xp_jitdump_unwinding {
	const uint8_t *eh_frame;
	size_t eh_frame_bytes;
	const uint8_t *eh_frame_hdr; /* never empty: without it perf keeps the data for the next function */
	size_t eh_frame_hdr_bytes;
	uint64_t mapped_bytes; /* all bytes of both: perf uses them; 0: only the header is to be used */
};

struct xp_jitdump;

/* fd: an empty regular file, which stays the caller's. Writes the header, at first into a buffer. -ENOMEM. */
int xp_jitdump_new(struct xp_jitdump **dump, int fd, const struct xp_jitdump_options *options);

int xp_jitdump_load(struct xp_jitdump *dump, uint64_t timestamp, const struct xp_jitdump_load *load);
int xp_jitdump_move(struct xp_jitdump *dump, uint64_t timestamp, const struct xp_jitdump_move *move);
/* Of the function that the next load brings. -EINVAL without a line. */
int xp_jitdump_debug_info(struct xp_jitdump *dump, uint64_t timestamp, uint64_t code_addr,
			  const struct xp_jitdump_line *lines, size_t line_count);
/* Of the function that the next load brings. */
int xp_jitdump_unwinding_info(struct xp_jitdump *dump, uint64_t timestamp,
			      const struct xp_jitdump_unwinding *unwinding);
/* The end of the runtime; nothing may follow but the flush. */
int xp_jitdump_close(struct xp_jitdump *dump, uint64_t timestamp);

/* Writes what the buffer holds. */
int xp_jitdump_flush(struct xp_jitdump *dump);
/* So far, the buffer's included; after an error, of the file as it was cut. */
uint64_t xp_jitdump_bytes(const struct xp_jitdump *dump);
/* As far as the file is whole whatever comes: an error takes back the records that are behind. */
uint64_t xp_jitdump_whole_bytes(const struct xp_jitdump *dump);
void xp_jitdump_free(struct xp_jitdump *dump);

#endif
