/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A strict reader of Perfetto's traces, packet by packet. Source of the format: protos/perfetto/trace/trace.proto and
 * the comments in it, and "Protocol Buffers Encoding" for the bytes.
 *
 * It requires that messages are whole and their fields have the types of the schema; that the state of a sequence, what
 * an id is interned for, tracks and clocks are described before packets refer to them; that an id keeps its text; and
 * that each end of a slice has a beginning. The schema has hundreds of packets: those and the fields that xprof does
 * not write are counted, not read.
 *
 * The file is untrusted: memory is bounded by the limits below.
 */
#ifndef XPROF_CHECK_PERFETTO_READER_H
#define XPROF_CHECK_PERFETTO_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text_pool.h"
#include "base/u64_map.h"
#include "check/proto_cursor.h"
#include "format/violation.h"

/* Limits of this reader: for a decompressed bundle, and for the interned ids, tracks and sequences together. */
#define XP_PERFETTO_BUNDLE_BYTES_MAX (16u << 20)
#define XP_PERFETTO_ELEMENTS_MAX (8u << 20)
#define XP_PERFETTO_TEXT_BYTES_MAX (256u << 20)

enum xp_perfetto_record_kind {
	XP_PERFETTO_OTHER, /* nothing that xprof writes */
	XP_PERFETTO_STATE, /* clocks, the system, defaults, interned data */
	XP_PERFETTO_TRACK,
	XP_PERFETTO_SLICE_BEGIN,
	XP_PERFETTO_SLICE_END,
	XP_PERFETTO_INSTANT_EVENT,
	XP_PERFETTO_STACK_SAMPLE,
};

struct xp_perfetto_record {
	enum xp_perfetto_record_kind kind;
	uint64_t offset; /* in the file; of a compressed packet: of its bundle */
	uint32_t sequence;
	bool has_time;
	uint64_t time; /* of its clock */
	uint64_t track;
	const char *name; /* of an event, as in the file; NULL: none */
	uint64_t pid, tid, cpu, callstack, weight;
};

struct xp_perfetto_sequence_state;

struct xp_perfetto_reader {
	uint64_t packets, unknown_fields, open_slices;
	uint64_t flows;	       /* that have begun */
	uint64_t stray_flows;  /* that have ended and not begun: at the end of the file there should be none */
	uint32_t bundle_bytes; /* the longest packet of compressed ones */

	/* private */
	const uint8_t *bytes;
	uint64_t size;
	struct xp_proto_cursor file, bundle;
	uint8_t *inflated;
	size_t inflated_room;
	uint64_t offset;
	struct xp_perfetto_sequence_state *sequences;
	size_t sequence_count, sequence_room;
	uint32_t states; /* each gets its own ids */
	struct xp_u64_map by_sequence, interned, tracks, clocks, flow_ids;
	struct xp_text_pool texts;
};

/* True if the bytes begin with a packet that begins a trace. */
bool xp_perfetto_probe(const uint8_t *bytes, uint64_t size);

/* The caller keeps the bytes, and calls xp_perfetto_reader_free(). */
void xp_perfetto_reader_init(struct xp_perfetto_reader *reader, const uint8_t *bytes, uint64_t size);
/* Returns 1 and the next packet, 0 at the end, -ENOMEM, or -EBADMSG and sets *violation; do not call it again then. */
int xp_perfetto_reader_next(struct xp_perfetto_reader *reader, struct xp_perfetto_record *record,
			    struct xp_violation *violation);
void xp_perfetto_reader_free(struct xp_perfetto_reader *reader);

#endif
