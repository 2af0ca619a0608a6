/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the numbers and strings of DWARF, little-endian, from untrusted bytes of a target. */
#ifndef XPROF_ELF_DWARF_CURSOR_H
#define XPROF_ELF_DWARF_CURSOR_H

#include <dwarf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/util.h"

/* Longer strings are invalid. The limit bounds the time for many references to one long string. */
#define XP_DWARF_TEXT_BYTES_MAX 4096

/* A cursor. After the end of the bytes, it is bad and returns zeros. */
struct xp_dwarf_cursor {
	const uint8_t *at;
	const uint8_t *end;
	bool bad;
};

static inline bool xp_dwarf_has(struct xp_dwarf_cursor *cursor, uint64_t bytes)
{
	if (!cursor->bad && bytes <= (uint64_t)(cursor->end - cursor->at))
		return true;
	cursor->bad = true;
	return false;
}

static inline uint64_t xp_dwarf_fixed(struct xp_dwarf_cursor *cursor, unsigned int bytes)
{
	if (!xp_dwarf_has(cursor, bytes))
		return 0;
	cursor->at += bytes;
	return xp_bytes_get(cursor->at - bytes, bytes);
}

static inline uint64_t xp_dwarf_uleb(struct xp_dwarf_cursor *cursor)
{
	uint64_t value = 0;
	uint8_t byte = 0x80;

	for (unsigned int shift = 0; byte & 0x80 && xp_dwarf_has(cursor, 1); shift += 7) {
		byte = *cursor->at++;
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
	}
	return value;
}

static inline int64_t xp_dwarf_sleb(struct xp_dwarf_cursor *cursor)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	uint8_t byte = 0x80;

	for (; byte & 0x80 && xp_dwarf_has(cursor, 1); shift += 7) {
		byte = *cursor->at++;
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
	}
	if (byte & 0x40 && shift < 64)
		value |= UINT64_MAX << shift;
	return (int64_t)value;
}

/* Returns the size of a pointer with this encoding, DW_EH_PE_*; 0: unknown. The low four bits are the format. */
static inline unsigned int xp_dwarf_pointer_bytes(uint8_t encoding)
{
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return 8;
	case DW_EH_PE_udata4:
	case DW_EH_PE_sdata4:
		return 4;
	case DW_EH_PE_udata2:
	case DW_EH_PE_sdata2:
		return 2;
	default:
		return 0;
	}
}

/* Reads a pointer, without adding the base of its encoding. */
static inline uint64_t xp_dwarf_pointer(struct xp_dwarf_cursor *cursor, uint8_t encoding)
{
	unsigned int bytes = xp_dwarf_pointer_bytes(encoding);
	uint64_t value = xp_dwarf_fixed(cursor, bytes);

	cursor->bad |= !bytes;
	if (encoding & 0x08 && bytes == 4)
		value = (uint64_t)(int32_t)value;
	else if (encoding & 0x08 && bytes == 2)
		value = (uint64_t)(int16_t)value;
	return value;
}

static inline const char *xp_dwarf_text(struct xp_dwarf_cursor *cursor)
{
	const uint8_t *from = cursor->at,
		      *zero = xp_dwarf_has(cursor, 1)
				  ? memchr(from, 0, XP_MIN(cursor->end - from, XP_DWARF_TEXT_BYTES_MAX))
				  : NULL;

	if (!zero) {
		cursor->bad = true;
		return "";
	}
	cursor->at = zero + 1;
	return (const char *)from;
}

static inline void xp_dwarf_skip(struct xp_dwarf_cursor *cursor, uint64_t bytes)
{
	if (xp_dwarf_has(cursor, bytes))
		cursor->at += bytes;
}

#endif
