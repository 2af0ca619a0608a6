/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads numbers from the bytes of a file, little-endian and at unaligned addresses. */
#ifndef XPROF_BASE_BYTES_H
#define XPROF_BASE_BYTES_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns the number in 1 to 8 bytes. With a constant size, this compiles to one load. */
static inline uint64_t xp_bytes_get(const uint8_t *from, size_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, from, bytes);
	return le64toh(value);
}

#endif
