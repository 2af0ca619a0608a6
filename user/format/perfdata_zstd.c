// SPDX-License-Identifier: BSD-2-Clause
#include "format/perfdata_zstd.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

#define VERSION 1
/* zstd finds repetitions faster in larger input: twice as fast at 64 KiB as at 16 KiB. */
#define WAITING_BYTES (64u << 10)
#define LEVEL_MAX 22u
#define EXPANDED_BYTES_MAX (64u << 20)

/* ---- compression, for the writer ---- */

struct xp_perfdata_compressor {
	ZSTD_CCtx *zstd;
	unsigned int level;
	uint64_t bytes; /* size of all records before compression */
	uint64_t compressed_bytes;
	size_t waiting;
	uint8_t records[WAITING_BYTES];
};

int xp_perfdata_compressor_new(struct xp_perfdata_compressor **result, unsigned int level)
{
	struct xp_perfdata_compressor *compressor;

	*result = NULL;
	if (!level || level > LEVEL_MAX)
		return -EINVAL;
	compressor = malloc(sizeof(*compressor));
	if (!compressor)
		return -ENOMEM;
	memset(compressor, 0, offsetof(struct xp_perfdata_compressor, records));
	compressor->level = level;
	compressor->zstd = ZSTD_createCCtx();
	if (!compressor->zstd ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(compressor->zstd, ZSTD_c_compressionLevel, (int)level))) {
		xp_perfdata_compressor_free(compressor);
		return -ENOMEM;
	}
	*result = compressor;
	return 0;
}

void xp_perfdata_compressor_free(struct xp_perfdata_compressor *compressor)
{
	if (!compressor)
		return;
	ZSTD_freeCCtx(compressor->zstd);
	free(compressor);
}

void *xp_perfdata_compressor_room(struct xp_perfdata_compressor *compressor, size_t size)
{
	uint8_t *room = compressor->records + compressor->waiting;

	if (size > sizeof(compressor->records) - compressor->waiting)
		return NULL;
	compressor->waiting += size;
	return room;
}

/*
 * Writes one compressed record with the rest of `in`. Returns the number of bytes that zstd still holds back, or an
 * error of zstd.
 */
static size_t pack_record(struct xp_perfdata_compressor *compressor, struct xp_perfdata_sink *sink, ZSTD_inBuffer *in)
{
	struct perf_event_header header = { .type = XP_PERFDATA_COMPRESSED };
	uint8_t *at = sink->buf + sink->used;
	size_t room = XP_MIN(sizeof(sink->buf) - sink->used, (size_t)UINT16_MAX) - sizeof(header), left;
	ZSTD_outBuffer out = { .dst = at + sizeof(header), .size = room };

	left = ZSTD_compressStream2(compressor->zstd, &out, in, ZSTD_e_flush);
	if (ZSTD_isError(left))
		return left;
	header.size = sizeof(header) + out.pos;
	memcpy(at, &header, sizeof(header));
	sink->used += header.size;
	compressor->compressed_bytes += header.size;
	return left;
}

int xp_perfdata_pack(struct xp_perfdata_compressor *compressor, struct xp_perfdata_sink *sink)
{
	ZSTD_inBuffer in = { .src = compressor->records, .size = compressor->waiting };
	size_t left = in.size;

	compressor->bytes += compressor->waiting;
	compressor->waiting = 0;
	while (left && !ZSTD_isError(left) && sizeof(sink->buf) - sink->used > sizeof(struct perf_event_header))
		left = pack_record(compressor, sink, &in);
	return left ? -EIO : 0;
}

void xp_perfdata_compressor_describe(const struct xp_perfdata_compressor *compressor,
				     struct xp_perfdata_compression *compression)
{
	*compression = (struct xp_perfdata_compression){
		.version = VERSION,
		.type = XP_PERFDATA_ZSTD,
		.level = compressor->level,
		.ratio = compressor->compressed_bytes
			     ? (compressor->bytes + compressor->compressed_bytes / 2) / compressor->compressed_bytes
			     : 1,
		.expanded_bytes = WAITING_BYTES,
	};
}

/* ---- decompression, for the reader ---- */

struct xp_perfdata_decompressor {
	ZSTD_DCtx *zstd;
	size_t begin, end; /* range of the bytes that are not consumed yet */
	size_t room;
	uint8_t records[];
};

int xp_perfdata_decompressor_new(struct xp_perfdata_decompressor **result, uint64_t expanded_bytes)
{
	/* The rest of the previous compressed record is shorter than one record. */
	size_t room = expanded_bytes + UINT16_MAX;
	struct xp_perfdata_decompressor *decompressor;

	*result = NULL;
	if (!expanded_bytes || expanded_bytes > EXPANDED_BYTES_MAX)
		return -EINVAL;
	decompressor = malloc(sizeof(*decompressor) + room);
	if (!decompressor)
		return -ENOMEM;
	*decompressor = (struct xp_perfdata_decompressor){ .zstd = ZSTD_createDCtx(), .room = room };
	if (!decompressor->zstd) {
		free(decompressor);
		return -ENOMEM;
	}
	*result = decompressor;
	return 0;
}

void xp_perfdata_decompressor_free(struct xp_perfdata_decompressor *decompressor)
{
	if (!decompressor)
		return;
	ZSTD_freeDCtx(decompressor->zstd);
	free(decompressor);
}

const char *xp_perfdata_unpack(struct xp_perfdata_decompressor *decompressor, const void *data, size_t size)
{
	ZSTD_inBuffer in = { .src = data, .size = size };
	ZSTD_outBuffer out = { .dst = decompressor->records, .size = decompressor->room };

	if (decompressor->begin)
		memmove(decompressor->records, decompressor->records + decompressor->begin,
			decompressor->end - decompressor->begin);
	out.pos = decompressor->end - decompressor->begin;
	while (in.pos < in.size) {
		size_t before = in.pos, err = ZSTD_decompressStream(decompressor->zstd, &out, &in);

		if (ZSTD_isError(err))
			return ZSTD_getErrorName(err);
		if (in.pos == before)
			return "it expands to more than the feature COMPRESSED says";
	}
	decompressor->begin = 0;
	decompressor->end = out.pos;
	return NULL;
}

const uint8_t *xp_perfdata_decompressed(const struct xp_perfdata_decompressor *decompressor, size_t *size)
{
	*size = decompressor->end - decompressor->begin;
	return decompressor->records + decompressor->begin;
}

void xp_perfdata_decompressor_consume(struct xp_perfdata_decompressor *decompressor, size_t size)
{
	decompressor->begin += size;
}
