/* SPDX-License-Identifier: BSD-2-Clause */
/* The format of a spool, and the result of making its log. */
#ifndef XPROF_FORMAT_SPOOL_FORMAT_H
#define XPROF_FORMAT_SPOOL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "base/own_file.h"
#include "format/fdr.h"

/* The process and the clock of a log. */
struct xp_log_info {
	int32_t pid;
	uint16_t fdr_version; /* the requested version, 1 or 5; typed events make it 5 */
	bool constant_tsc;
	bool nonstop_tsc;
	bool names_only; /* see XP_SPOOL_NAMES_ONLY */
	uint64_t cycle_hz;
	uint64_t start_tsc; /* start of the recording */
	uint64_t wall_ns;   /* CLOCK_REALTIME at start_tsc */
	const char *comm;
	const char *exe;	/* path of the executable */
	const char *final_name; /* name of the log, in the directory of its spool */
};

#define XP_SPOOL_MAGIC "XPSPOOL"
#define XP_SPOOL_VERSION 2
#define XP_SPOOL_HEADER_BYTES 8192
#define XP_SPOOL_CHUNK_MAX (128u << 10)
#define XP_SPOOL_NAME_MAX XP_LOG_NAME_MAX
#define XP_SPOOL_FRAME_MAGIC 0x4d524658u /* XFRM */
#define XP_SPOOL_NOTE_MAGIC 0x544f4e58u	 /* XNOT */

enum xp_spool_flag {
	XP_SPOOL_CONSTANT_TSC = 1,
	XP_SPOOL_NONSTOP_TSC = 2,
	XP_SPOOL_NAMES_ONLY = 4, /* no log is made of this spool: the logs of a flight recorder have their own spools */
};

struct xp_spool_header {
	char magic[8];
	uint32_t version;
	int32_t pid;
	uint64_t cycle_hz;
	uint64_t start_tsc;
	uint64_t wall_ns;
	uint16_t fdr_version;
	uint16_t flags;
	uint32_t zero;
	char comm[16];
	char final_name[XP_SPOOL_NAME_MAX + 16];
	char exe[4096];
	uint32_t check; /* crc32 of the preceding bytes */
	uint32_t zero2;
};
_Static_assert(sizeof(struct xp_spool_header) <= XP_SPOOL_HEADER_BYTES, "the header has its own blocks");

enum xp_spool_frame_flag {
	XP_SPOOL_FRAME_TYPED = 1, /* the chunk contains typed events */
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

/*
 * A note is a frame with XP_SPOOL_NOTE_MAGIC. Its first_tsc is the crc32 of the bytes after the frame. With the flags
 * XP_SPOOL_NOTE_OBJECT, these bytes are a struct xp_spool_object. recover writes the notes to the manifest, not to the
 * log.
 */
#define XP_SPOOL_NOTE_OBJECT 3u

/* A binary whose functions have IDs in the log. */
struct xp_spool_object {
	uint32_t first_id;
	uint32_t functions;
	uint32_t build_id_bytes;
	uint32_t zero;
	uint8_t build_id[64];
	char path[]; /* to the end of the note */
};

static inline uint32_t xp_spool_header_check(const struct xp_spool_header *header)
{
	return crc32(0, (const Bytef *)header, offsetof(struct xp_spool_header, check));
}

static inline uint32_t xp_spool_frame_check(const struct xp_spool_frame *frame)
{
	return crc32(0, (const Bytef *)frame, offsetof(struct xp_spool_frame, check));
}

/* Returns whether the name is a plain file name: not empty, no '/', not "." or "..", not too long. */
bool xp_spool_name_valid(const char *name);
/*
 * Returns whether a log can be made of the spool with this name: its version and frequency are valid, and the log of
 * NAME.spool is NAME.fdr. A forged spool can contain any name, and its log would replace the file with that name.
 */
bool xp_spool_info_valid(const struct xp_log_info *info, const char *name);

struct xp_spool_result {
	char final_name[XP_SPOOL_NAME_MAX + 1];
	char exe[4096];
	char comm[16];
	int32_t pid;
	uint16_t fdr_version; /* FDR version of the log */
	uint32_t threads;
	struct xp_fdr_chunk_stats stats; /* content of the log */
	uint64_t wall_ns;		 /* start of the recording, CLOCK_REALTIME */
	uint64_t file_bytes;		 /* size of the log, including holes */
	/* Bytes at the end of the spool that were dropped: an incomplete frame, or data dropped to get space on a full
	 * disk. */
	uint64_t dropped_bytes;
};

/* Makes the log of a closed spool: xp_fdr_make() (export/logs.h). Returns 0 or -errno. */
typedef int (*xp_log_maker)(int dir_fd, const char *spool_name, struct xp_spool_result *result);

#endif
