/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the bytes of protobuf messages ("Protocol Buffers Encoding"). */
#ifndef XPROF_CHECK_PROTO_CURSOR_H
#define XPROF_CHECK_PROTO_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#define XP_PROTO_VARINT 0
#define XP_PROTO_FIXED64 1
#define XP_PROTO_BYTES 2
#define XP_PROTO_FIXED32 5

struct xp_proto_cursor {
	const uint8_t *at;
	const uint8_t *end;
};

/* A field with its value: a number, or bytes. */
struct xp_proto_field {
	uint32_t number;
	uint32_t type; /* XP_PROTO_* */
	uint64_t value;
	struct xp_proto_cursor bytes;
};

/* Returns false if the number is cut off or has more than 64 bits. */
static inline bool xp_proto_varint(struct xp_proto_cursor *cursor, uint64_t *value)
{
	*value = 0;
	for (unsigned int shift = 0; shift < 64 && cursor->at < cursor->end; shift += 7) {
		uint8_t byte = *cursor->at++;

		if (shift == 63 && byte > 1)
			return false;
		*value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

/* Returns 1 and the next field, 0 at the end, or -1 if it is malformed. */
static inline int xp_proto_next(struct xp_proto_cursor *cursor, struct xp_proto_field *field)
{
	uint64_t key;

	if (cursor->at == cursor->end)
		return 0;
	if (!xp_proto_varint(cursor, &key) || key >> 3 == 0 || key >> 3 > 0x1fffffff)
		return -1;
	field->number = (uint32_t)(key >> 3);
	field->type = key & 7;
	switch (field->type) {
	case XP_PROTO_VARINT:
		return xp_proto_varint(cursor, &field->value) ? 1 : -1;
	case XP_PROTO_FIXED64:
	case XP_PROTO_FIXED32:
		field->value = field->type == XP_PROTO_FIXED64 ? 8 : 4;
		break;
	case XP_PROTO_BYTES:
		if (!xp_proto_varint(cursor, &field->value))
			return -1;
		break;
	default:
		return -1;
	}
	if (field->value > (uint64_t)(cursor->end - cursor->at))
		return -1;
	field->bytes = (struct xp_proto_cursor){ cursor->at, cursor->at + field->value };
	cursor->at += field->value;
	return 1;
}

#endif
