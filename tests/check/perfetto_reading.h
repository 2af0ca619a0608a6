/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the reader of Perfetto's traces share: the fields of messages, and what ids are interned for. */
#ifndef XPROF_CHECK_PERFETTO_READING_H
#define XPROF_CHECK_PERFETTO_READING_H

#include "check/perfetto_reader.h"

struct xp_perfetto_sequence_state {
	uint32_t state; /* 0: not cleared yet */
	uint64_t track, clock;
	/* Its clocks are few: one that is incremental is what everybody has. */
	uint64_t incremental_clock; /* 0: none */
	uint64_t incremental_time;
};

struct xp_perfetto_reading {
	struct xp_perfetto_reader *reader;
	struct xp_violation *violation;
	struct xp_perfetto_sequence_state *sequence;
	struct xp_perfetto_record *record;
};

enum xp_perfetto_message {
	XP_PERFETTO_PACKET,
	XP_PERFETTO_DEFAULTS,
	XP_PERFETTO_EVENT_DEFAULTS,
	XP_PERFETTO_SNAPSHOT,
	XP_PERFETTO_CLOCK,
	XP_PERFETTO_TRACK_DESCRIPTOR,
	XP_PERFETTO_TRACK_EVENT,
	XP_PERFETTO_ANNOTATION,
	XP_PERFETTO_INTERNED_DATA,
	XP_PERFETTO_INTERNED_TEXT,
	XP_PERFETTO_MAPPING,
	XP_PERFETTO_FRAME,
	XP_PERFETTO_CALLSTACK,
	XP_PERFETTO_SAMPLE,
	XP_PERFETTO_TASK,
	XP_PERFETTO_EXECUTION,
	XP_PERFETTO_SYSTEM,
};

/* Kinds of ids: the fields of InternedData. */
enum {
	XP_PERFETTO_EVENT_NAMES = 2,
	XP_PERFETTO_ARGUMENT_NAMES = 3,
	XP_PERFETTO_FUNCTIONS = 5,
	XP_PERFETTO_FRAMES = 6,
	XP_PERFETTO_CALLSTACKS = 7,
	XP_PERFETTO_BUILD_IDS = 16,
	XP_PERFETTO_PATHS = 17,
	XP_PERFETTO_SOURCES = 18,
	XP_PERFETTO_MAPPINGS = 19,
};

/* Each sequence whose state is cleared gets a number below this. */
#define XP_PERFETTO_STATES_MAX (1u << 22)

/* "what number". Returns -EBADMSG. */
int xp_perfetto_violate(const struct xp_perfetto_reading *reading, const char *what, uint64_t number);
/* Returns 1 and a field that xprof knows, 0 at the end, or -EBADMSG. */
int xp_perfetto_field(const struct xp_perfetto_reading *reading, struct xp_proto_cursor *cursor,
		      enum xp_perfetto_message message, struct xp_proto_field *field);
/* Reads the numbers of a message by the number of the field, up to 15. *has: which there are. */
int xp_perfetto_numbers(const struct xp_perfetto_reading *reading, struct xp_proto_cursor cursor,
			enum xp_perfetto_message message, uint64_t numbers[16], uint32_t *has);
/* Returns -EBADMSG if there are too many elements. */
int xp_perfetto_room(const struct xp_perfetto_reading *reading, const struct xp_u64_map *map);

int xp_perfetto_intern(const struct xp_perfetto_reading *reading, struct xp_proto_cursor cursor);
/* Whether an id was interned. what: the violation if not. text may be NULL. */
int xp_perfetto_find(const struct xp_perfetto_reading *reading, uint32_t kind, uint64_t id, const char *what,
		     const char **text);
/* The same, but an id may be 0. */
int xp_perfetto_reference(const struct xp_perfetto_reading *reading, uint32_t kind, uint64_t id, const char *what);

#endif
