/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compressed records of a perf.data: other records, one behind the other, in a stream of zstd that goes on from each
 * compressed record to the next. A feature says how far one of them expands at most; without it perf reads none.
 *
 * Sources: tools/perf/util/zstd.c; perf_session__process_compressed_event() of tools/perf/util/session.c or tool.c;
 * HEADER_COMPRESSED in tools/perf/Documentation/perf.data-file-format.txt.
 */
#ifndef XPROF_FMT_PERFDATA_ZSTD_H
#define XPROF_FMT_PERFDATA_ZSTD_H

#include <stddef.h>
#include <stdint.h>

#include "format/perfdata_put.h"

#define XP_PERFDATA_ZSTD 1 /* perf_compress_type */

/* The feature's section. */
struct xp_perfdata_compression {
	uint32_t version;
	uint32_t type; /* XP_PERFDATA_ZSTD */
	uint32_t level;
	uint32_t ratio;		 /* bytes before, for each one behind */
	uint32_t expanded_bytes; /* of one record, at most: perf's memory for them is so large */
};
_Static_assert(sizeof(struct xp_perfdata_compression) == 20, "HEADER_COMPRESSED");

/* ---- the writer's side ---- */

struct xp_perfdata_packer;

/* level: of zstd, 1 to 22. -EINVAL, -ENOMEM. */
int xp_perfdata_packer_new(struct xp_perfdata_packer **packer, unsigned int level);
void xp_perfdata_packer_free(struct xp_perfdata_packer *packer);
/* Room for a record of at most 64 KiB, behind those that wait to be compressed; NULL: they have to be, first. */
void *xp_perfdata_packer_room(struct xp_perfdata_packer *packer, size_t size);
/* Compresses the records that wait into sink, which has to have room for XP_PERFDATA_PACKED_MAX. 0 or -EIO. */
#define XP_PERFDATA_PACKED_MAX (72u << 10)
int xp_perfdata_pack(struct xp_perfdata_packer *packer, struct xp_perfdata_sink *sink);
/* Of all that has been compressed. */
void xp_perfdata_packer_tell(const struct xp_perfdata_packer *packer, struct xp_perfdata_compression *compression);

/* ---- the reader's side ---- */

struct xp_perfdata_unpacker;

/* expanded_bytes: as the feature says. -EINVAL: more than 64 MiB, or 0; -ENOMEM. zstd takes up to 128 MiB besides. */
int xp_perfdata_unpacker_new(struct xp_perfdata_unpacker **unpacker, uint64_t expanded_bytes);
void xp_perfdata_unpacker_free(struct xp_perfdata_unpacker *unpacker);
/*
 * Expands what a compressed record holds, behind what is left of those before. NULL, or the reason for which nothing
 * more can be read.
 */
const char *xp_perfdata_unpack(struct xp_perfdata_unpacker *unpacker, const void *data, size_t size);
/* What is not consumed yet. */
const uint8_t *xp_perfdata_unpacked(const struct xp_perfdata_unpacker *unpacker, size_t *size);
void xp_perfdata_unpacker_consume(struct xp_perfdata_unpacker *unpacker, size_t size);

#endif
