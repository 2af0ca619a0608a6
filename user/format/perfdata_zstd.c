// SPDX-License-Identifier: BSD-2-Clause
#include "format/perfdata_zstd.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

#define VERSION 1
/* zstd looks for repetitions faster when it gets much at once: at 64 KiB, twice as fast as at 16. */
#define WAITING_BYTES (64u << 10)
#define LEVEL_MAX 22u
#define EXPANDED_BYTES_MAX (64u << 20)

/* ---- the writer's side ---- */

struct xp_perfdata_packer {
	ZSTD_CCtx *zstd;
	unsigned int level;
	uint64_t bytes; /* before and behind */
	uint64_t packed_bytes;
	size_t waiting;
	uint8_t records[WAITING_BYTES];
};

int xp_perfdata_packer_new(struct xp_perfdata_packer **result, unsigned int level)
{
	struct xp_perfdata_packer *packer;

	*result = NULL;
	if (!level || level > LEVEL_MAX)
		return -EINVAL;
	packer = malloc(sizeof(*packer));
	if (!packer)
		return -ENOMEM;
	memset(packer, 0, offsetof(struct xp_perfdata_packer, records));
	packer->level = level;
	packer->zstd = ZSTD_createCCtx();
	if (!packer->zstd || ZSTD_isError(ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_compressionLevel, (int)level))) {
		xp_perfdata_packer_free(packer);
		return -ENOMEM;
	}
	*result = packer;
	return 0;
}

void xp_perfdata_packer_free(struct xp_perfdata_packer *packer)
{
	if (!packer)
		return;
	ZSTD_freeCCtx(packer->zstd);
	free(packer);
}

void *xp_perfdata_packer_room(struct xp_perfdata_packer *packer, size_t size)
{
	uint8_t *room = packer->records + packer->waiting;

	if (size > sizeof(packer->records) - packer->waiting)
		return NULL;
	packer->waiting += size;
	return room;
}

/* One compressed record of what is left of `in`. The bytes that zstd still holds back, or an error of zstd. */
static size_t pack_record(struct xp_perfdata_packer *packer, struct xp_perfdata_sink *sink, ZSTD_inBuffer *in)
{
	struct perf_event_header header = { .type = XP_PERFDATA_COMPRESSED };
	uint8_t *at = sink->buf + sink->used;
	size_t room = XP_MIN(sizeof(sink->buf) - sink->used, (size_t)UINT16_MAX) - sizeof(header), left;
	ZSTD_outBuffer out = { .dst = at + sizeof(header), .size = room };

	left = ZSTD_compressStream2(packer->zstd, &out, in, ZSTD_e_flush);
	if (ZSTD_isError(left))
		return left;
	header.size = sizeof(header) + out.pos;
	memcpy(at, &header, sizeof(header));
	sink->used += header.size;
	packer->packed_bytes += header.size;
	return left;
}

int xp_perfdata_pack(struct xp_perfdata_packer *packer, struct xp_perfdata_sink *sink)
{
	ZSTD_inBuffer in = { .src = packer->records, .size = packer->waiting };
	size_t left = in.size;

	packer->bytes += packer->waiting;
	packer->waiting = 0;
	while (left && !ZSTD_isError(left) && sizeof(sink->buf) - sink->used > sizeof(struct perf_event_header))
		left = pack_record(packer, sink, &in);
	return left ? -EIO : 0;
}

void xp_perfdata_packer_tell(const struct xp_perfdata_packer *packer, struct xp_perfdata_compression *compression)
{
	*compression = (struct xp_perfdata_compression){
		.version = VERSION,
		.type = XP_PERFDATA_ZSTD,
		.level = packer->level,
		.ratio = packer->packed_bytes ? (packer->bytes + packer->packed_bytes / 2) / packer->packed_bytes : 1,
		.expanded_bytes = WAITING_BYTES,
	};
}

/* ---- the reader's side ---- */

struct xp_perfdata_unpacker {
	ZSTD_DCtx *zstd;
	size_t begin, end; /* of what is not consumed */
	size_t room;
	uint8_t records[];
};

int xp_perfdata_unpacker_new(struct xp_perfdata_unpacker **result, uint64_t expanded_bytes)
{
	/* Less than a record is left of those before. */
	size_t room = expanded_bytes + UINT16_MAX;
	struct xp_perfdata_unpacker *unpacker;

	*result = NULL;
	if (!expanded_bytes || expanded_bytes > EXPANDED_BYTES_MAX)
		return -EINVAL;
	unpacker = malloc(sizeof(*unpacker) + room);
	if (!unpacker)
		return -ENOMEM;
	*unpacker = (struct xp_perfdata_unpacker){ .zstd = ZSTD_createDCtx(), .room = room };
	if (!unpacker->zstd) {
		free(unpacker);
		return -ENOMEM;
	}
	*result = unpacker;
	return 0;
}

void xp_perfdata_unpacker_free(struct xp_perfdata_unpacker *unpacker)
{
	if (!unpacker)
		return;
	ZSTD_freeDCtx(unpacker->zstd);
	free(unpacker);
}

const char *xp_perfdata_unpack(struct xp_perfdata_unpacker *unpacker, const void *data, size_t size)
{
	ZSTD_inBuffer in = { .src = data, .size = size };
	ZSTD_outBuffer out = { .dst = unpacker->records, .size = unpacker->room };

	if (unpacker->begin)
		memmove(unpacker->records, unpacker->records + unpacker->begin, unpacker->end - unpacker->begin);
	out.pos = unpacker->end - unpacker->begin;
	while (in.pos < in.size) {
		size_t before = in.pos, err = ZSTD_decompressStream(unpacker->zstd, &out, &in);

		if (ZSTD_isError(err))
			return ZSTD_getErrorName(err);
		if (in.pos == before)
			return "it expands to more than the feature COMPRESSED says";
	}
	unpacker->begin = 0;
	unpacker->end = out.pos;
	return NULL;
}

const uint8_t *xp_perfdata_unpacked(const struct xp_perfdata_unpacker *unpacker, size_t *size)
{
	*size = unpacker->end - unpacker->begin;
	return unpacker->records + unpacker->begin;
}

void xp_perfdata_unpacker_consume(struct xp_perfdata_unpacker *unpacker, size_t size)
{
	unpacker->begin += size;
}
