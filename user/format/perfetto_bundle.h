/* SPDX-License-Identifier: BSD-2-Clause */
/* Collects packets of a Perfetto trace (a bundle), and writes them as one compressed packet. */
#ifndef XPROF_FORMAT_PERFETTO_BUNDLE_H
#define XPROF_FORMAT_PERFETTO_BUNDLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <zlib.h>

#include "perfetto.pb-c.h"

#define XP_PERFETTO_PACKED_BYTES_MAX 127 /* for xp_perfetto_bundle_put_packed(): its length takes a byte */

struct xp_perfetto_bundle {
	FILE *out;
	int err;	  /* the first error; nothing is written after it */
	uint8_t *packets; /* the bundle: packets with keys and lengths */
	size_t size;
	uint8_t *deflated;
	size_t deflated_room;
	z_stream deflater;
	uint8_t *packed; /* serialized packet that is written alone */
	size_t packed_room;
};

/* All functions return 0 or -errno. The caller keeps `out`, and calls xp_perfetto_bundle_free(), also after an error.
 */
int xp_perfetto_bundle_begin(struct xp_perfetto_bundle *bundle, FILE *out);
int xp_perfetto_bundle_put(struct xp_perfetto_bundle *bundle, const Xprof__Perfetto__TracePacket *packet);
/* Adds a serialized packet of at most XP_PERFETTO_PACKED_BYTES_MAX bytes. */
int xp_perfetto_bundle_put_packed(struct xp_perfetto_bundle *bundle, const uint8_t *packed, size_t size);
/* Writes a packet immediately and without compression. */
int xp_perfetto_bundle_put_alone(struct xp_perfetto_bundle *bundle, const Xprof__Perfetto__TracePacket *packet);
int xp_perfetto_bundle_flush(struct xp_perfetto_bundle *bundle);
void xp_perfetto_bundle_free(struct xp_perfetto_bundle *bundle);

/* Stores the error if it is the first one. Returns the first error. */
int xp_perfetto_bundle_fail(struct xp_perfetto_bundle *bundle, int err);

/* Writes a variable-length number. Returns its size: at most 10 bytes. */
size_t xp_perfetto_put_varint(uint8_t *to, uint64_t value);

#endif
