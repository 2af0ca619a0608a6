/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/manifest_flights.h"

#include <string.h>

#include "record/manifest_json.h"

static json_t *open_call_value(const void *arg, size_t index)
{
	const struct xp_manifest_calls *calls = arg;
	struct section section = begin();

	put_number(&section, "id", calls->ids[index]);
	if (calls->names[index])
		put_text(&section, "name", calls->names[index]);
	return done(&section);
}

static json_t *caller_value(const void *arg, size_t index)
{
	const struct xp_manifest_calls *calls = (const struct xp_manifest_calls *)arg + index;
	struct section section = begin();

	put_number(&section, "tid", calls->tid);
	put(&section, "calls", list(calls->count, open_call_value, calls));
	return done(&section);
}

static json_t *slow_call_value(const struct xp_manifest_slow_call *slow)
{
	struct section section = begin();

	put_text(&section, "trigger", slow->trigger);
	put_number(&section, "tid", slow->in.tid);
	put(&section, "start_s", json_real((double)slow->start_ns / NS_PER_S));
	put(&section, "duration_s", json_real((double)slow->took_ns / NS_PER_S));
	put(&section, "calls", list(slow->in.count, open_call_value, &slow->in));
	put_number(&section, "further_calls", slow->further);
	return done(&section);
}

json_t *xp_manifest_trigger_value(const void *arg, size_t index)
{
	const struct xp_manifest_trigger *trigger = (const struct xp_manifest_trigger *)arg + index;
	struct section section = begin();

	put_text(&section, "trigger", trigger->text);
	put_number(&section, "calls", trigger->calls);
	put_number(&section, "logs", trigger->logs);
	put_number(&section, "in_an_earlier_log", trigger->shared);
	put_number(&section, "beyond_limit", trigger->beyond);
	put_number(&section, "beyond_share", trigger->beyond_share);
	return done(&section);
}

json_t *xp_manifest_flight_value(const void *arg, size_t index)
{
	const struct xp_manifest_flight *flight = (const struct xp_manifest_flight *)arg + index;
	struct section section = begin();

	put_text(&section, "log", flight->log_name);
	put_text(&section, "cause", flight->cause);
	if (flight->signal)
		put_number(&section, "signal", flight->signal);
	if (flight->error)
		put_text(&section, "error", strerror(-flight->error));
	put(&section, "from_s", json_real((double)flight->from_ns / NS_PER_S));
	put(&section, "to_s", json_real((double)flight->to_ns / NS_PER_S));
	put_number(&section, "records", flight->records);
	put_number(&section, "synthesized_entries", flight->synthesized_entries);
	put_number(&section, "synthesized_exits", flight->synthesized_exits);
	if (flight->slow.trigger)
		put(&section, "slow_call", slow_call_value(&flight->slow));
	if (flight->caller_count)
		put(&section, "open_calls", list(flight->caller_count, caller_value, flight->callers));
	return done(&section);
}
