// SPDX-License-Identifier: BSD-2-Clause
#include "format/pprof_inflate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include <zlib.h>

#include "base/util.h"

#define GZIP_WINDOW_BITS (15 + 16) /* zlib.h: 16 more for a gzip header and nothing else */
#define ROOM_MIN 65536u
#define PART_BYTES (1u << 30) /* zlib counts in unsigned int */

size_t xp_pprof_inflate_begin(const uint8_t *bytes, uint64_t size, uint8_t *to, size_t room)
{
	z_stream stream = {
		.next_in = (uint8_t *)bytes,
		.avail_in = (unsigned int)XP_MIN(size, (uint64_t)PART_BYTES),
		.next_out = to,
		.avail_out = (unsigned int)room,
	};
	size_t count;

	if (size < 18 || bytes[0] != 0x1f || bytes[1] != 0x8b || inflateInit2(&stream, GZIP_WINDOW_BITS))
		return 0;
	inflate(&stream, Z_SYNC_FLUSH);
	count = room - stream.avail_out;
	inflateEnd(&stream);
	return count;
}

/* Makes room for more content. */
static int grow(z_stream *stream, uint8_t **to, uint64_t *room, uint64_t max)
{
	uint64_t used = *room - stream->avail_out, more = XP_MIN(XP_MAX(2 * *room, (uint64_t)ROOM_MIN), max + 1);
	uint8_t *grown = realloc(*to, more);

	if (!grown)
		return -ENOMEM;
	*to = grown;
	*room = more;
	stream->next_out = grown + used;
	stream->avail_out = (unsigned int)(more - used);
	return 0;
}

static int inflate_all(z_stream *stream, uint64_t size, uint64_t max, uint8_t **to, uint64_t *to_size,
		       struct xp_violation *violation)
{
	uint64_t room = 0;
	int status = Z_OK;

	while (status == Z_OK) {
		if (!stream->avail_out && grow(stream, to, &room, max))
			return -ENOMEM;
		status = inflate(stream, Z_NO_FLUSH);
		*to_size = room - stream->avail_out;
		if (*to_size > max)
			return xp_violate(violation, 0, "its content is larger than %" PRIu64 " MiB", max >> 20);
	}
	if (status == Z_MEM_ERROR)
		return -ENOMEM;
	if (status == Z_BUF_ERROR)
		return xp_violate(violation, *to_size, "the gzip file is cut off");
	if (status != Z_STREAM_END)
		return xp_violate(violation, *to_size, "not gzip: %s", stream->msg ? stream->msg : "unknown error");
	if (stream->total_in != size)
		return xp_violate(violation, *to_size, "%" PRIu64 " bytes follow the end of the gzip file",
				  size - stream->total_in);
	return 0;
}

int xp_pprof_inflate(const uint8_t *bytes, uint64_t size, uint64_t max, uint8_t **to, uint64_t *to_size,
		     struct xp_violation *violation)
{
	z_stream stream = { .next_in = (uint8_t *)bytes, .avail_in = (unsigned int)size };
	int err;

	*to = NULL;
	*to_size = 0;
	if (size > PART_BYTES)
		return xp_violate(violation, 0, "the file is larger than 1 GiB");
	if (inflateInit2(&stream, GZIP_WINDOW_BITS))
		return -ENOMEM;
	err = inflate_all(&stream, size, max, to, to_size, violation);
	inflateEnd(&stream);
	if (err) {
		free(*to);
		*to = NULL;
	}
	return err;
}
