/* SPDX-License-Identifier: BSD-2-Clause */
/* The logs of flight recorders, in manifest.json. */
#include <string.h>

#include "record/calls_text.h"
#include "record/manifest_parts.h"

/* The open calls of a thread, the innermost first. */
static json_t *calls_value(const struct xp_functions *functions, const struct xp_flight_thread *thread)
{
	json_t *calls = json_array();

	for (unsigned int i = 0; i < thread->call_count; i++) {
		const char *name = xp_function_symbol(functions, thread->calls[i]);
		struct section section = begin();

		put_number(&section, "id", thread->calls[i]);
		if (name)
			put_text(&section, "name", name);
		append(&calls, done(&section));
	}
	return calls;
}

/* The threads with open calls at the end of the log. */
static json_t *open_calls_value(const struct xp_functions *functions, const struct xp_flight_threads *threads)
{
	json_t *callers = json_array();

	for (size_t i = 0; i < threads->count && i < XP_FLIGHT_THREADS_MAX; i++) {
		struct section section = begin();

		put_number(&section, "tid", threads->first[i].tid);
		put(&section, "calls", calls_value(functions, &threads->first[i]));
		append(&callers, done(&section));
	}
	return callers;
}

static json_t *slow_call_value(const struct xp_recording *recording, const struct xp_functions *functions,
			       const struct xp_flight_slow_call *slow)
{
	struct section section = begin();

	put_text(&section, "trigger", recording->targets.processes.triggers.list[slow->trigger].text);
	put_number(&section, "tid", slow->in.tid);
	put_seconds(&section, "start_s", since_start_ns(recording, slow->begin_tsc));
	put_seconds(&section, "duration_s", xp_clock_ns(recording->clock, slow->end_tsc - slow->begin_tsc));
	if (recording->options->off_cpu.given)
		put_seconds(&section, "runnable_s", xp_clock_ns(recording->clock, slow->delay_ticks));
	put(&section, "calls", calls_value(functions, &slow->in));
	put_number(&section, "further_calls", slow->calls - 1);
	return done(&section);
}

static json_t *trigger_value(const void *arg, size_t index)
{
	const struct xp_trigger *trigger = (const struct xp_trigger *)arg + index;
	struct section section = begin();

	put_text(&section, "trigger", trigger->text);
	put_number(&section, "calls", trigger->calls);
	put_number(&section, "logs", trigger->logs);
	put_number(&section, "in_an_earlier_log", trigger->shared);
	put_number(&section, "beyond_limit", trigger->beyond);
	put_number(&section, "beyond_share", trigger->beyond_share);
	return done(&section);
}

json_t *xp_manifest_triggers_value(const struct xp_triggers *triggers)
{
	return list(triggers->count, trigger_value, triggers->list);
}

static json_t *flight_value(const struct xp_recording *recording, const struct xp_functions *functions,
			    const struct xp_flight_log *log)
{
	struct section section = begin();

	put_text(&section, "log", log->name);
	put_text(&section, "cause", xp_flight_cause_name(log->cause));
	if (log->signal)
		put_number(&section, "signal", log->signal);
	if (log->error)
		put_text(&section, "error", strerror(-log->error));
	put_seconds(&section, "from_s", since_start_ns(recording, log->first_tsc));
	put_seconds(&section, "to_s", since_start_ns(recording, log->at_tsc));
	put_number(&section, "records", log->records);
	put_number(&section, "synthesized_entries", log->entries);
	put_number(&section, "synthesized_exits", log->exits);
	if (log->slow.calls)
		put(&section, "slow_call", slow_call_value(recording, functions, &log->slow));
	if (log->threads.count)
		put(&section, "open_calls", open_calls_value(functions, &log->threads));
	return done(&section);
}

json_t *xp_manifest_flights_value(const struct xp_recording *recording, const struct xp_process *process)
{
	json_t *flights = json_array();

	for (size_t i = 0; i < process->flights.count; i++)
		append(&flights, flight_value(recording, &process->functions, &process->flights.logs[i]));
	return flights;
}
