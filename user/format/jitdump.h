/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes jitdump files: little-endian, for x86-64.
 *
 * Source of the format: "JITDUMP specification version 2" (tools/perf/Documentation/jitdump-specification.txt). Its
 * most important reader, `perf inject --jit` (tools/perf/util/jitdump.c, genelf.c), deviates from the specification in
 * two points: it requires version 1, also for files with unwinding records, and it expects .eh_frame before
 * .eh_frame_hdr. The writer follows perf.
 *
 * A file is only appended to, record by record. If a write fails, the file is truncated after a complete record, so it
 * stays readable.
 *
 * Functions return 0 or -errno. -EINVAL, for a record that does not fit into the format, changes nothing. After any
 * other error the writer does nothing more and returns the same error again.
 */
#ifndef XPROF_FORMAT_JITDUMP_H
#define XPROF_FORMAT_JITDUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_JITDUMP_MAGIC 0x4a695444u /* "JiTD" */
#define XP_JITDUMP_HEADER_BYTES 40u
#define XP_JITDUMP_PREFIX_BYTES 16u	       /* start of each record: id, size, timestamp */
#define XP_JITDUMP_FLAG_ARCH_TIMESTAMP 1ull    /* times are TSCs, not CLOCK_MONOTONIC */
#define XP_JITDUMP_PERF_VERSION 1u	       /* accepted by perf */
#define XP_JITDUMP_TEXT_VERSION 2u	       /* defined by the specification */
#define XP_JITDUMP_RECORD_BYTES_MAX UINT32_MAX /* the size field has 32 bits */

enum xp_jitdump_kind {
	XP_JITDUMP_LOAD = 0,
	XP_JITDUMP_MOVE = 1,
	XP_JITDUMP_DEBUG_INFO = 2,
	XP_JITDUMP_CLOSE = 3,
	XP_JITDUMP_UNWINDING_INFO = 4,
};

struct xp_jitdump_options {
	uint32_t pid;
	uint64_t timestamp; /* time of the start of the file */
	bool arch_timestamp;
};

struct xp_jitdump_load {
	uint32_t pid;
	uint32_t tid;
	uint64_t code_addr; /* also written as the vma */
	uint64_t code_size;
	uint64_t code_index; /* perf writes jitted-<pid>-<code_index>.so: unique in a file */
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

struct xp_jitdump;

/* fd is an empty regular file, which the caller keeps. Puts the header into the buffer. Returns 0 or -ENOMEM. */
int xp_jitdump_new(struct xp_jitdump **dump, int fd, const struct xp_jitdump_options *options);

int xp_jitdump_load(struct xp_jitdump *dump, uint64_t timestamp, const struct xp_jitdump_load *load);
int xp_jitdump_move(struct xp_jitdump *dump, uint64_t timestamp, const struct xp_jitdump_move *move);
/* Debug information for the function of the next load. Returns -EINVAL without lines. */
int xp_jitdump_debug_info(struct xp_jitdump *dump, uint64_t timestamp, uint64_t code_addr,
			  const struct xp_jitdump_line *lines, size_t line_count);
/* Marks the end of the runtime. Only a flush may follow. */
int xp_jitdump_close(struct xp_jitdump *dump, uint64_t timestamp);

/* Writes the contents of the buffer. */
int xp_jitdump_flush(struct xp_jitdump *dump);
/* Returns the bytes so far, including the buffer; after an error, the size of the truncated file. */
uint64_t xp_jitdump_bytes(const struct xp_jitdump *dump);
/* Returns the size up to which the file stays complete even if a later write fails. */
uint64_t xp_jitdump_whole_bytes(const struct xp_jitdump *dump);
void xp_jitdump_free(struct xp_jitdump *dump);

#endif
