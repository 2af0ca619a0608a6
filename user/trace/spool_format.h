/* SPDX-License-Identifier: BSD-2-Clause */
/* The byte format of a spool, shared by its writer and its reader. Private to spool*.c. */
#ifndef XPROF_TRACE_SPOOL_FORMAT_H
#define XPROF_TRACE_SPOOL_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "base/log_file.h"
#include "trace/spool.h"

#define XP_SPOOL_MAGIC "XPSPOOL"
#define XP_SPOOL_VERSION 1
#define XP_SPOOL_HEADER_BYTES 8192
#define XP_SPOOL_FRAME_MAGIC 0x4d524658u /* XFRM */

enum xp_spool_tsc_flag {
	XP_SPOOL_CONSTANT_TSC = 1,
	XP_SPOOL_NONSTOP_TSC = 2,
};

struct xp_spool_header {
	char magic[8];
	uint32_t version;
	int32_t pid;
	uint64_t cycle_hz;
	uint64_t start_tsc;
	uint64_t wall_ns;
	uint16_t fdr_version;
	uint16_t tsc_flags;
	uint32_t zero;
	char comm[16];
	char final_name[XP_SPOOL_NAME_MAX + 16];
	char exe[4096];
	uint32_t check; /* crc32 of the preceding bytes */
	uint32_t zero2;
};
_Static_assert(sizeof(struct xp_spool_header) <= XP_SPOOL_HEADER_BYTES, "the header has its own blocks");

enum xp_spool_frame_flag {
	XP_SPOOL_FRAME_TYPED = 1, /* holds typed events */
};

struct xp_spool_frame {
	uint32_t magic;
	int32_t tid;
	uint32_t chunk_bytes; /* number of bytes that follow */
	uint32_t flags;
	uint64_t first_tsc;
	char name[16];
	uint32_t check; /* crc32 of the preceding bytes */
	uint32_t zero;
};
_Static_assert(sizeof(struct xp_spool_frame) == 48, "no padding");

static inline uint32_t xp_spool_header_check(const struct xp_spool_header *header)
{
	return crc32(0, (const Bytef *)header, offsetof(struct xp_spool_header, check));
}

static inline uint32_t xp_spool_frame_check(const struct xp_spool_frame *frame)
{
	return crc32(0, (const Bytef *)frame, offsetof(struct xp_spool_frame, check));
}

/* A plain file name: not empty, no '/', not "." or "..", not too long. */
bool xp_spool_name_valid(const char *name);
/*
 * The log of NAME.spool must be NAME.fdr. A forged spool can contain any name, and its log would replace the file of
 * that name.
 */
bool xp_spool_final_name_valid(const char *final_name, const char *name);

/*
 * Lays out the complete frames of spool fd, named `name`, in dir_fd. trusted: its chunks are known to be well formed.
 */
int xp_spool_lay_out(int dir_fd, const char *name, int fd, bool trusted, struct xp_spool_result *result);

#endif
