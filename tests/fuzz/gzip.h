/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef XPROF_TESTS_FUZZ_GZIP_H
#define XPROF_TESTS_FUZZ_GZIP_H

#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

/* Makes a gzip file of the bytes, which the caller frees. CHECK() is the target's. */
static inline uint8_t *gzip(const uint8_t *data, size_t size, size_t *zipped_size)
{
	uint8_t *zipped = malloc(size + size / 1000 + 1024);
	z_stream stream = { .next_in = (uint8_t *)data, .avail_in = (unsigned int)size, .next_out = zipped };

	CHECK(zipped);
	stream.avail_out = (unsigned int)(size + size / 1000 + 1024);
	CHECK(deflateInit2(&stream, 0, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
	*zipped_size = stream.total_out;
	deflateEnd(&stream);
	return zipped;
}

#endif
