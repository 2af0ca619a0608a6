// SPDX-License-Identifier: BSD-2-Clause
#include "check/perfdata_rules.h"

#include <inttypes.h>
#include <time.h>

struct state {
	bool mono; /* all events have times of CLOCK_MONOTONIC */
	bool converts;
	uint64_t newest_ns; /* of the records so far */
	uint64_t round_ns;  /* newest_ns at the last FINISHED_ROUND */
	uint64_t floor_ns;  /* newest_ns at the one before: records that are not newer have been passed on */
	bool rounds;	    /* there was one */
};

static bool violate_conversion(const struct xp_perfdata_record *record, struct xp_violation *violation)
{
	if (record->conversion.mult && record->conversion.mult <= UINT32_MAX && record->conversion.shift < 64 &&
	    record->conversion.has_zero)
		return false;
	xp_violate(violation, record->offset,
		   "perf cannot convert times by a multiplier of %" PRIu64 ", a shift of %" PRIu64 "%s",
		   record->conversion.mult, record->conversion.shift,
		   record->conversion.has_zero ? "" : " and no zero");
	return true;
}

static bool check_jit(const struct state *state, const struct xp_perfdata_record *record,
		      struct xp_violation *violation)
{
	if (!xp_perfdata_is_jit(record->map.path) || state->converts || state->mono)
		return false;
	xp_violate(violation, record->offset,
		   "perf inject --jit rejects all jitdumps: there is no TIME_CONV record, and the times are not those "
		   "of CLOCK_MONOTONIC");
	return true;
}

/* tools/perf/util/ordered-events.c */
static bool check_order(struct state *state, const struct xp_perfdata_record *record, struct xp_violation *violation)
{
	/* Times of 0 and -1 mean no time. */
	if (!(record->has & PERF_SAMPLE_TIME) || !record->time_ns || record->time_ns == UINT64_MAX)
		return false;
	if (state->rounds && record->time_ns < state->floor_ns) {
		xp_violate(violation, record->offset,
			   "perf reports this record as out of order: it is %" PRIu64
			   " ns older than a record from before the next-to-last FINISHED_ROUND",
			   state->floor_ns - record->time_ns);
		return true;
	}
	state->newest_ns = XP_MAX(state->newest_ns, record->time_ns);
	return false;
}

static void end_round(struct state *state)
{
	if (state->rounds)
		state->floor_ns = state->round_ns;
	state->round_ns = state->newest_ns;
	state->rounds = true;
}

static bool check_record(struct state *state, const struct xp_perfdata_record *record, struct xp_violation *violation)
{
	if (check_order(state, record, violation))
		return true;
	switch (record->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return check_jit(state, record, violation);
	case XP_PERFDATA_TIME_CONV:
		state->converts = true;
		return violate_conversion(record, violation);
	case XP_PERFDATA_FINISHED_ROUND:
		end_round(state);
		return false;
	default:
		return false;
	}
}

bool xp_perfdata_rules_check(const uint8_t *bytes, uint64_t size, struct xp_violation *violation)
{
	struct xp_violation none;
	struct xp_perfdata_reader reader;
	struct xp_perfdata_record record;
	struct state state = { .mono = true };
	bool found = false;

	if (xp_perfdata_reader_init(&reader, bytes, size, &none))
		return false;
	if (!reader.header.data.size) {
		xp_perfdata_reader_end(&reader);
		xp_violate(violation, offsetof(struct xp_perfdata_header, data.size),
			   "perf warns that this recording was cut off: the header says that there are no "
			   "records");
		return true;
	}
	for (uint64_t i = 0; i < reader.events.count; i++) {
		struct xp_perfdata_event event;

		xp_perfdata_events_get(&reader.events, i, &event);
		state.mono &= event.attr.use_clockid && event.attr.clockid == CLOCK_MONOTONIC;
	}
	while (!found && xp_perfdata_reader_next(&reader, &record, &none) == 1)
		found = check_record(&state, &record, violation);
	xp_perfdata_reader_end(&reader);
	return found;
}
