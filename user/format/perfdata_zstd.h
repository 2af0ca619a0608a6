/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compressed records of a perf.data file: concatenated records in a zstd stream that continues from each compressed
 * record to the next. A feature states the maximum expanded size of one compressed record; without it perf reads none.
 *
 * Sources: tools/perf/util/zstd.c; perf_session__process_compressed_event() of tools/perf/util/session.c or tool.c;
 * HEADER_COMPRESSED in tools/perf/Documentation/perf.data-file-format.txt.
 */
#ifndef XPROF_FORMAT_PERFDATA_ZSTD_H
#define XPROF_FORMAT_PERFDATA_ZSTD_H

#include <stddef.h>
#include <stdint.h>

#include "format/perfdata_put.h"

#define XP_PERFDATA_ZSTD 1 /* perf_compress_type */

/* The feature's section. */
struct xp_perfdata_compression {
	uint32_t version;
	uint32_t type; /* XP_PERFDATA_ZSTD */
	uint32_t level;
	uint32_t ratio;		 /* uncompressed bytes per compressed byte */
	uint32_t expanded_bytes; /* per record, at most: perf allocates this much memory */
};
_Static_assert(sizeof(struct xp_perfdata_compression) == 20, "HEADER_COMPRESSED");

/* ---- compression, for the writer ---- */

struct xp_perfdata_compressor;

/* level: of zstd, 1 to 22. Returns 0 or -errno: -EINVAL, -ENOMEM. */
int xp_perfdata_compressor_new(struct xp_perfdata_compressor **compressor, unsigned int level);
void xp_perfdata_compressor_free(struct xp_perfdata_compressor *compressor);
/*
 * Reserves space for a record of at most 64 KiB after the pending records. Returns NULL if these must be compressed
 * first.
 */
void *xp_perfdata_compressor_room(struct xp_perfdata_compressor *compressor, size_t size);
/* Compresses the pending records into sink, which must have space for XP_PERFDATA_PACKED_MAX. Returns 0 or -EIO. */
#define XP_PERFDATA_PACKED_MAX (72u << 10)
int xp_perfdata_pack(struct xp_perfdata_compressor *compressor, struct xp_perfdata_sink *sink);
/* Describes all records compressed so far. */
void xp_perfdata_compressor_describe(const struct xp_perfdata_compressor *compressor,
				     struct xp_perfdata_compression *compression);

/* ---- decompression, for the reader ---- */

struct xp_perfdata_decompressor;

/*
 * expanded_bytes: the number in the feature. Returns 0 or -errno: -EINVAL for 0 or more than 64 MiB; -ENOMEM. zstd
 * needs up to 128 MiB more.
 */
int xp_perfdata_decompressor_new(struct xp_perfdata_decompressor **decompressor, uint64_t expanded_bytes);
void xp_perfdata_decompressor_free(struct xp_perfdata_decompressor *decompressor);
/*
 * Decompresses the contents of a compressed record, and appends them to the bytes that are not consumed yet. Returns
 * NULL, or the reason of a failure, after which nothing more can be read.
 */
const char *xp_perfdata_unpack(struct xp_perfdata_decompressor *decompressor, const void *data, size_t size);
/* Returns the bytes that are not consumed yet. */
const uint8_t *xp_perfdata_decompressed(const struct xp_perfdata_decompressor *decompressor, size_t *size);
void xp_perfdata_decompressor_consume(struct xp_perfdata_decompressor *decompressor, size_t size);

#endif
