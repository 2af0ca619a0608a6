// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the reader of Perfetto's traces, and what dump and check make of them: as a file, and as a compressed bundle.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "format/formats.h"
#include "format/perfetto_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

#include "check_format.h"

static size_t put_varint(uint8_t *to, uint64_t value)
{
	size_t count = 0;

	for (; value >= 0x80; value >>= 7)
		to[count++] = (uint8_t)(value | 0x80);
	to[count++] = (uint8_t)value;
	return count;
}

static bool read_all(const uint8_t *data, size_t size)
{
	struct xp_violation violation = { .text = "" };
	struct xp_perfetto_reader reader;
	struct xp_perfetto_record record;
	int more;

	xp_perfetto_reader_init(&reader, data, size);
	while ((more = xp_perfetto_reader_next(&reader, &record, &violation)) > 0)
		CHECK(record.offset < size && record.kind <= XP_PERFETTO_STACK_SAMPLE);
	CHECK(!more || more == -EBADMSG);
	CHECK(!more == !violation.text[0] && violation.offset <= size);
	xp_perfetto_reader_free(&reader);
	check_format(&xp_format_perfetto, data, size, !more);
	return !more;
}

/* The input as a trace of one packet with compressed packets. */
static void read_bundle(const uint8_t *data, size_t size)
{
	uLongf zipped_size = compressBound(size);
	uint8_t *zipped = malloc(zipped_size), *trace = malloc(zipped_size + 32), *to = trace;
	uint8_t head[12] = { 0x92, 0x03 }; /* field 50, bytes */
	size_t head_bytes;

	CHECK(zipped && trace && compress2(zipped, &zipped_size, data, size, 0) == Z_OK);
	head_bytes = 2 + put_varint(head + 2, zipped_size);
	*to++ = 0x0a;
	to += put_varint(to, head_bytes + zipped_size);
	memcpy(to, head, head_bytes);
	memcpy(to + head_bytes, zipped, zipped_size);
	read_all(trace, (size_t)(to - trace) + head_bytes + zipped_size);
	free(zipped);
	free(trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	xp_perfetto_probe(data, size);
	read_all(data, size);
	read_bundle(data, size);
	return 0;
}
