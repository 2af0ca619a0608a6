// SPDX-License-Identifier: BSD-2-Clause
#include "format/perfetto_bundle.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* A compressed packet should be smaller than 512 KB (trace_packet.proto). This limits its size before compression. */
#define BUNDLE_BYTES (500u << 10)
#define FIELD_BYTES_MAX 16 /* size of a key and a length */
#define DEFLATE_LEVEL 4	   /* a third of the time of level 6, for 3 % more bytes */

#define PACKET_KEY 0x0a /* Trace.packet */

int xp_perfetto_bundle_begin(struct xp_perfetto_bundle *bundle, FILE *out)
{
	memset(bundle, 0, sizeof(*bundle));
	bundle->out = out;
	bundle->err = deflateInit(&bundle->deflater, DEFLATE_LEVEL) ? -ENOMEM : 0;
	if (bundle->err)
		return bundle->err;
	bundle->deflated_room = deflateBound(&bundle->deflater, BUNDLE_BYTES);
	bundle->packets = malloc(BUNDLE_BYTES);
	bundle->deflated = malloc(bundle->deflated_room);
	if (!bundle->packets || !bundle->deflated)
		bundle->err = -ENOMEM;
	return bundle->err;
}

void xp_perfetto_bundle_free(struct xp_perfetto_bundle *bundle)
{
	deflateEnd(&bundle->deflater);
	free(bundle->packets);
	free(bundle->deflated);
	free(bundle->packed);
}

int xp_perfetto_bundle_fail(struct xp_perfetto_bundle *bundle, int err)
{
	if (!bundle->err)
		bundle->err = err;
	return bundle->err;
}

size_t xp_perfetto_put_varint(uint8_t *to, uint64_t value)
{
	size_t count = 0;

	for (; value >= 0x80; value >>= 7)
		to[count++] = (uint8_t)(value | 0x80);
	to[count++] = (uint8_t)value;
	return count;
}

static int write_bytes(struct xp_perfetto_bundle *bundle, const void *bytes, size_t size)
{
	errno = 0;
	if (fwrite(bytes, 1, size, bundle->out) != size)
		return xp_perfetto_bundle_fail(bundle, errno ? -errno : -EIO);
	return 0;
}

/* Writes a packet that is already serialized. */
static int write_packet(struct xp_perfetto_bundle *bundle, const uint8_t *packed, size_t size)
{
	uint8_t head[FIELD_BYTES_MAX] = { PACKET_KEY };
	int err = write_bytes(bundle, head, 1 + xp_perfetto_put_varint(head + 1, size));

	return err ? err : write_bytes(bundle, packed, size);
}

int xp_perfetto_bundle_put_alone(struct xp_perfetto_bundle *bundle, const Xprof__Perfetto__TracePacket *packet)
{
	size_t size = xprof__perfetto__trace_packet__get_packed_size(packet);

	if (size > UINT32_MAX || XP_ARRAY_RESERVE(bundle->packed, bundle->packed_room, size))
		return xp_perfetto_bundle_fail(bundle, -ENOMEM);
	xprof__perfetto__trace_packet__pack(packet, bundle->packed);
	return write_packet(bundle, bundle->packed, size);
}

static int write_bundle(struct xp_perfetto_bundle *bundle)
{
	Xprof__Perfetto__TracePacket packet = XPROF__PERFETTO__TRACE_PACKET__INIT;
	z_stream *deflater = &bundle->deflater;

	if (!bundle->size)
		return 0;
	deflater->next_in = bundle->packets;
	deflater->avail_in = (unsigned int)bundle->size;
	deflater->next_out = bundle->deflated;
	deflater->avail_out = (unsigned int)bundle->deflated_room;
	/* Cannot fail for lack of space: deflated_room is deflateBound(). */
	if (deflate(deflater, Z_FINISH) != Z_STREAM_END)
		return xp_perfetto_bundle_fail(bundle, -EIO);
	packet.has_compressed_packets = true;
	packet.compressed_packets.data = bundle->deflated;
	packet.compressed_packets.len = bundle->deflated_room - deflater->avail_out;
	deflateReset(deflater);
	bundle->size = 0;
	return xp_perfetto_bundle_put_alone(bundle, &packet);
}

/* Writes the bundle if it has no space for a packet of this size. */
static int make_room(struct xp_perfetto_bundle *bundle, size_t size)
{
	if (!bundle->err && bundle->size + FIELD_BYTES_MAX + size > BUNDLE_BYTES)
		write_bundle(bundle);
	return bundle->err;
}

int xp_perfetto_bundle_put(struct xp_perfetto_bundle *bundle, const Xprof__Perfetto__TracePacket *packet)
{
	size_t size = xprof__perfetto__trace_packet__get_packed_size(packet);
	uint8_t *to;

	if (make_room(bundle, size))
		return bundle->err;
	if (FIELD_BYTES_MAX + size > BUNDLE_BYTES)
		return xp_perfetto_bundle_put_alone(bundle, packet);
	to = bundle->packets + bundle->size;
	*to++ = PACKET_KEY;
	to += xp_perfetto_put_varint(to, size);
	to += xprof__perfetto__trace_packet__pack(packet, to);
	bundle->size = (size_t)(to - bundle->packets);
	return 0;
}

int xp_perfetto_bundle_put_packed(struct xp_perfetto_bundle *bundle, const uint8_t *packed, size_t size)
{
	uint8_t *to;

	if (make_room(bundle, size))
		return bundle->err;
	to = bundle->packets + bundle->size;
	*to++ = PACKET_KEY;
	*to++ = (uint8_t)size;
	memcpy(to, packed, size);
	bundle->size += 2 + size;
	return 0;
}

int xp_perfetto_bundle_flush(struct xp_perfetto_bundle *bundle)
{
	return bundle->err ? bundle->err : write_bundle(bundle);
}
