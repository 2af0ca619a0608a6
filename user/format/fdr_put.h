/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes of single FDR records, little-endian. Private to the encoder, the layout, and the hot path of
 * trace/thread.c. Every function that starts with xp_fdr_put_ writes XP_FDR_METADATA_BYTES, except
 * xp_fdr_put_function().
 */
#ifndef XPROF_FORMAT_FDR_PUT_H
#define XPROF_FORMAT_FDR_PUT_H

#include <endian.h>
#include <string.h>

#include "base/bytes.h"
#include "base/util.h"
#include "format/fdr.h"

static inline void xp_fdr_put16(uint8_t *to, uint16_t value)
{
	value = htole16(value);
	memcpy(to, &value, sizeof(value));
}

static inline void xp_fdr_put32(uint8_t *to, uint32_t value)
{
	value = htole32(value);
	memcpy(to, &value, sizeof(value));
}

static inline void xp_fdr_put64(uint8_t *to, uint64_t value)
{
	value = htole64(value);
	memcpy(to, &value, sizeof(value));
}

/* Writes XP_FDR_FUNCTION_BYTES. delta may have 32 bits, fn_id 28. */
static inline void xp_fdr_put_function(uint8_t *to, uint64_t delta, uint32_t fn_id, enum xp_fdr_function_kind kind)
{
	xp_fdr_put64(to, delta << 32 | fn_id << 4 | (uint32_t)kind << 1);
}

static inline void xp_fdr_put_metadata(uint8_t *to, enum xp_fdr_metadata_kind kind)
{
	memset(to, 0, XP_FDR_METADATA_BYTES);
	to[0] = kind << 1 | 1;
}

/* In the specification, the TID has two bytes. llvm-xray reads four; the low half of them is the specified field. */
static inline void xp_fdr_put_new_buffer(uint8_t *to, int32_t tid)
{
	xp_fdr_put_metadata(to, XP_FDR_NEW_BUFFER);
	xp_fdr_put32(to + 1, tid);
}

static inline void xp_fdr_put_end_of_buffer(uint8_t *to)
{
	xp_fdr_put_metadata(to, XP_FDR_END_OF_BUFFER);
}

static inline void xp_fdr_put_new_cpu(uint8_t *to, uint16_t cpu, uint64_t tsc)
{
	xp_fdr_put_metadata(to, XP_FDR_NEW_CPU_ID);
	xp_fdr_put16(to + 1, cpu);
	xp_fdr_put64(to + 3, tsc);
}

static inline void xp_fdr_put_tsc_wrap(uint8_t *to, uint64_t tsc)
{
	xp_fdr_put_metadata(to, XP_FDR_TSC_WRAP);
	xp_fdr_put64(to + 1, tsc);
}

static inline void xp_fdr_put_wall_clock(uint8_t *to, uint64_t wall_ns)
{
	xp_fdr_put_metadata(to, XP_FDR_WALL_CLOCK);
	xp_fdr_put64(to + 1, wall_ns / 1000000000);
	xp_fdr_put32(to + 9, wall_ns % 1000000000 / 1000);
}

static inline void xp_fdr_put_argument(uint8_t *to, uint64_t argument)
{
	xp_fdr_put_metadata(to, XP_FDR_CALL_ARGUMENT);
	xp_fdr_put64(to + 1, argument);
}

static inline void xp_fdr_put_custom_v1(uint8_t *to, int32_t size, uint64_t tsc)
{
	xp_fdr_put_metadata(to, XP_FDR_CUSTOM_EVENT);
	xp_fdr_put32(to + 1, size);
	xp_fdr_put64(to + 5, tsc);
}

static inline void xp_fdr_put_custom_v5(uint8_t *to, int32_t size, int32_t delta)
{
	xp_fdr_put_metadata(to, XP_FDR_CUSTOM_EVENT);
	xp_fdr_put32(to + 1, size);
	xp_fdr_put32(to + 5, delta);
}

static inline void xp_fdr_put_typed(uint8_t *to, int32_t size, int32_t delta, uint16_t type)
{
	xp_fdr_put_metadata(to, XP_FDR_TYPED_EVENT);
	xp_fdr_put32(to + 1, size);
	xp_fdr_put32(to + 5, delta);
	xp_fdr_put16(to + 9, type);
}

static inline void xp_fdr_put_extents(uint8_t *to, uint64_t bytes)
{
	xp_fdr_put_metadata(to, XP_FDR_BUFFER_EXTENTS);
	xp_fdr_put64(to + 1, bytes);
}

static inline void xp_fdr_put_pid(uint8_t *to, int32_t pid)
{
	xp_fdr_put_metadata(to, XP_FDR_PID);
	xp_fdr_put32(to + 1, pid);
}

#endif
