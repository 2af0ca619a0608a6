// SPDX-License-Identifier: BSD-2-Clause
/* Encodes one thread's records and scans the chunks: see fdr.h. */
#include "format/fdr.h"

#include <errno.h>
#include <string.h>

#include "format/fdr_put.h"

static inline bool has_room(const struct xp_fdr_enc *enc, size_t need)
{
	return enc->cap - enc->len >= need;
}

static void add_new_cpu(struct xp_fdr_enc *enc, uint16_t cpu, uint64_t tsc)
{
	xp_fdr_put_new_cpu(enc->buf + enc->len, cpu, tsc);
	enc->len += XP_FDR_METADATA_BYTES;
	enc->cpu = cpu;
	enc->base_tsc = tsc;
}

static void add_tsc_wrap(struct xp_fdr_enc *enc, uint64_t tsc)
{
	xp_fdr_put_tsc_wrap(enc->buf + enc->len, tsc);
	enc->len += XP_FDR_METADATA_BYTES;
	enc->base_tsc = tsc;
}

/* Adds the record that makes the next delta 0. */
static void add_base(struct xp_fdr_enc *enc, uint16_t cpu, uint64_t tsc)
{
	if (cpu != enc->cpu)
		add_new_cpu(enc, cpu, tsc);
	else
		add_tsc_wrap(enc, tsc);
}

static inline void add_function(struct xp_fdr_enc *enc, uint64_t delta, uint32_t fn_id, enum xp_fdr_function_kind kind)
{
	xp_fdr_put_function(enc->buf + enc->len, delta, fn_id, kind);
	enc->len += XP_FDR_FUNCTION_BYTES;
}

/* Returns whether a record needs a base record before it, because its own fields cannot express cpu and delta. */
static inline bool needs_base(const struct xp_fdr_enc *enc, uint16_t cpu, uint64_t tsc)
{
	/* A tsc below the base wraps around to a huge difference. */
	return cpu != enc->cpu || tsc - enc->base_tsc > UINT32_MAX;
}

void xp_fdr_enc_begin(struct xp_fdr_enc *enc, uint8_t *buf, size_t cap, uint16_t cpu, uint64_t tsc)
{
	*enc = (struct xp_fdr_enc){ .buf = buf, .cap = cap };
	add_new_cpu(enc, cpu, tsc);
}

static __attribute__((noinline, cold)) int function_with_base(struct xp_fdr_enc *enc, uint16_t cpu, uint64_t tsc,
							      uint32_t fn_id, enum xp_fdr_function_kind kind)
{
	if (fn_id > XP_FDR_FUNCTION_ID_MAX)
		return -EINVAL;
	if (!has_room(enc, XP_FDR_METADATA_BYTES + XP_FDR_FUNCTION_BYTES))
		return -ENOSPC;
	add_base(enc, cpu, tsc);
	add_function(enc, 0, fn_id, kind);
	return 0;
}

int xp_fdr_enc_function(struct xp_fdr_enc *enc, uint16_t cpu, uint64_t tsc, uint32_t fn_id,
			enum xp_fdr_function_kind kind)
{
	if (__builtin_expect(needs_base(enc, cpu, tsc) || fn_id > XP_FDR_FUNCTION_ID_MAX, 0))
		return function_with_base(enc, cpu, tsc, fn_id, kind);
	if (__builtin_expect(!has_room(enc, XP_FDR_FUNCTION_BYTES), 0))
		return -ENOSPC;
	add_function(enc, tsc - enc->base_tsc, fn_id, kind);
	enc->base_tsc = tsc;
	return 0;
}

int xp_fdr_enc_args(struct xp_fdr_enc *enc, uint16_t cpu, uint64_t tsc, uint32_t fn_id, const uint64_t *args,
		    unsigned int count)
{
	size_t need = XP_FDR_METADATA_BYTES + XP_FDR_FUNCTION_BYTES + (size_t)count * XP_FDR_METADATA_BYTES;
	int err;

	if (!has_room(enc, need))
		return -ENOSPC;
	err = xp_fdr_enc_function(enc, cpu, tsc, fn_id, XP_FDR_ENTER_ARGS);
	if (err)
		return err;
	for (unsigned int i = 0; i < count; i++) {
		xp_fdr_put_argument(enc->buf + enc->len, args[i]);
		enc->len += XP_FDR_METADATA_BYTES;
	}
	return 0;
}

/* Checks for space for an event and writes its base. */
static int begin_event(struct xp_fdr_enc *enc, uint16_t cpu, uint64_t tsc, uint32_t size)
{
	if (size > XP_FDR_EVENT_BYTES_MAX)
		return -EINVAL;
	if (!has_room(enc, (size_t)2 * XP_FDR_METADATA_BYTES + XP_MAX(size, 1u)))
		return -ENOSPC;
	add_base(enc, cpu, tsc);
	return 0;
}

static void add_payload(struct xp_fdr_enc *enc, const void *data, uint32_t size)
{
	if (size)
		memcpy(enc->buf + enc->len, data, size);
	else
		enc->buf[enc->len] = 0;
	enc->len += XP_MAX(size, 1u);
}

int xp_fdr_enc_custom(struct xp_fdr_enc *enc, uint16_t cpu, uint64_t tsc, const void *data, uint32_t size)
{
	int err = begin_event(enc, cpu, tsc, size);

	if (err)
		return err;
	xp_fdr_put_custom_v1(enc->buf + enc->len, XP_MAX(size, 1u), tsc);
	enc->len += XP_FDR_METADATA_BYTES;
	add_payload(enc, data, size);
	return 0;
}

int xp_fdr_enc_typed(struct xp_fdr_enc *enc, uint16_t cpu, uint64_t tsc, uint16_t type, const void *data, uint32_t size)
{
	int err = begin_event(enc, cpu, tsc, size);

	if (err)
		return err;
	xp_fdr_put_typed(enc->buf + enc->len, XP_MAX(size, 1u), 0, type);
	enc->len += XP_FDR_METADATA_BYTES;
	enc->has_typed = true;
	add_payload(enc, data, size);
	return 0;
}

static inline bool is_metadata(const uint8_t *record, enum xp_fdr_metadata_kind kind)
{
	return record[0] == (kind << 1 | 1);
}

static inline bool is_event(const uint8_t *record)
{
	return is_metadata(record, XP_FDR_CUSTOM_EVENT) || is_metadata(record, XP_FDR_TYPED_EVENT);
}

static int32_t event_size(const uint8_t *record)
{
	return (int32_t)xp_bytes_get(record + 1, 4);
}

/* Length of the metadata record at p including its payload, or 0 if it must not occur in a chunk. */
static size_t metadata_bytes(const uint8_t *p, size_t left)
{
	int32_t size;

	if (left < XP_FDR_METADATA_BYTES)
		return 0;
	if (is_metadata(p, XP_FDR_NEW_CPU_ID) || is_metadata(p, XP_FDR_TSC_WRAP) ||
	    is_metadata(p, XP_FDR_CALL_ARGUMENT))
		return XP_FDR_METADATA_BYTES;
	if (!is_event(p))
		return 0;
	size = event_size(p);
	if (size <= 0 || (size_t)size > left - XP_FDR_METADATA_BYTES)
		return 0;
	return XP_FDR_METADATA_BYTES + (size_t)size;
}

int xp_fdr_chunk_scan(const uint8_t *chunk, size_t len, struct xp_fdr_chunk_stats *stats)
{
	struct xp_fdr_chunk_stats seen = { 0 };
	bool takes_arguments = false;
	size_t pos = 0;

	if (len < XP_FDR_METADATA_BYTES || !is_metadata(chunk, XP_FDR_NEW_CPU_ID))
		return -EBADMSG;
	while (pos < len) {
		const uint8_t *p = chunk + pos;
		size_t bytes;

		if (!(p[0] & 1)) {
			if (len - pos < XP_FDR_FUNCTION_BYTES || (p[0] >> 1 & 7) > XP_FDR_ENTER_ARGS)
				return -EBADMSG;
			takes_arguments = (p[0] >> 1 & 7) == XP_FDR_ENTER_ARGS;
			seen.functions++;
			pos += XP_FDR_FUNCTION_BYTES;
			continue;
		}
		bytes = metadata_bytes(p, len - pos);
		if (!bytes)
			return -EBADMSG;
		if (is_metadata(p, XP_FDR_CALL_ARGUMENT)) {
			if (!takes_arguments)
				return -EBADMSG;
			seen.arguments++;
		} else {
			takes_arguments = false;
			seen.events += is_event(p);
			seen.typed += is_metadata(p, XP_FDR_TYPED_EVENT);
		}
		pos += bytes;
	}
	if (stats) {
		stats->functions += seen.functions;
		stats->arguments += seen.arguments;
		stats->events += seen.events;
		stats->typed += seen.typed;
	}
	return 0;
}

uint64_t xp_fdr_chunk_tsc(const uint8_t *chunk)
{
	return xp_bytes_get(chunk + 3, 8);
}

uint16_t xp_fdr_chunk_cpu(const uint8_t *chunk)
{
	return (uint16_t)xp_bytes_get(chunk + 1, 2);
}

int xp_fdr_chunk_calls(const uint8_t *chunk, size_t len,
		       int (*visit)(void *arg, uint32_t fn_id, enum xp_fdr_function_kind kind), void *arg)
{
	int ret = 0;

	for (size_t pos = 0; pos < len && !ret;) {
		const uint8_t *p = chunk + pos;

		if (p[0] & 1) {
			pos += metadata_bytes(p, len - pos);
			continue;
		}
		ret = visit(arg, (uint32_t)xp_bytes_get(p, 4) >> 4, (enum xp_fdr_function_kind)(p[0] >> 1 & 7));
		pos += XP_FDR_FUNCTION_BYTES;
	}
	return ret;
}

void xp_fdr_chunk_to_v5(uint8_t *chunk, size_t len)
{
	size_t pos = 0;

	while (pos < len) {
		uint8_t *p = chunk + pos;

		if (!(p[0] & 1)) {
			pos += XP_FDR_FUNCTION_BYTES;
			continue;
		}
		pos += metadata_bytes(p, len - pos);
		/* The preceding record has set the base to this event's TSC. */
		if (is_metadata(p, XP_FDR_CUSTOM_EVENT))
			xp_fdr_put_custom_v5(p, event_size(p), 0);
	}
}
