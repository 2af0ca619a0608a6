/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/messages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "base/why.h"
#include "budget/cost_watch.h"
#include "record/calls_text.h"
#include "record/recording.h"
#include "sled/plan_table.h"

/* ---- failures ---- */

const char *xp_failure_remedy(int err)
{
	switch (err) {
	case -ENOSPC:
	case -EDQUOT:
		return "; make room there or give another -o";
	case -EFBIG:
		return "; raise `ulimit -f` or give another -o";
	default:
		return "";
	}
}

int xp_failure_exit_code(int err)
{
	switch (err) {
	case -EPERM:
	case -EACCES:
	case -EOPNOTSUPP:
	case -EMFILE:
		return XP_EXIT_ENVIRONMENT;
	case -EDOM: /* a pattern that matches no function */
		return XP_EXIT_USAGE;
	default:
		return XP_EXIT_FAILED;
	}
}

int xp_failure_report(int err, const char *doing)
{
	if (xp_why_has(err))
		xp_error("%s", xp_why(err));
	else
		xp_error("%s: %s%s", doing, strerror(-err), xp_failure_remedy(err));
	return xp_failure_exit_code(err);
}

/* ---- announcements ---- */

void xp_announce_dry_run(const struct xp_recording *recording)
{
	size_t objects = 0;
	char text[512];

	for (const struct xp_process *process = recording->targets.processes.first; process; process = process->next) {
		xp_put_line(stdout, "process %d (%s)", process->pid, process->comm);
		objects += process->functions.range_count;
		for (size_t i = 0; i < process->functions.range_count; i++) {
			const struct xp_range *range = &process->functions.ranges[i];
			const struct xp_object *object = range->object;

			xp_put_line(stdout, "  %s: %zu function%s, %zu %s%s, %zu to %s%s, %zu refused", object->path,
				    object->table->function_count, xp_plural_s(object->table->function_count),
				    object->table->sled_count, object->plan ? "entries and exit" : "sled",
				    xp_plural_s(object->table->sled_count), range->sleds.attached,
				    range->sleds.mode == XP_SLEDS_PATCHED ? "patch" : "probe",
				    range->sleds.memory ? " (calls in memory)" : "",
				    range->sleds.patched + range->sleds.unreadable);
			if (!object->plan)
				continue;
			xp_plan_table_text(object->plan, object->table->function_count, text, sizeof(text));
			xp_put_line(stdout, "    functions: %s", text);
		}
		if (process->attaching.probed_why)
			xp_put_line(stdout, "  probed, not patched: %s", process->attaching.probed_why);
		if (process->attaching.patched_why)
			xp_put_line(stdout, "  patched, not in memory: %s", process->attaching.patched_why);
	}
	xp_forecast_text(&recording->targets.forecast, text, sizeof(text));
	if (text[0]) {
		xp_put_line(stdout, "forecast: %s", text);
	} else if (objects && !recording->plan.multi) {
		xp_put_line(stdout, "no forecast: it needs uprobe_multi, Linux 6.6");
	} else if (!objects && recording->plan.samples) {
		xp_put_line(stdout, "samples only");
	}
}

void xp_announce_cost(const struct xp_recording *recording, const struct xp_cost_seen *seen)
{
	const struct xp_hits *hits = &recording->targets.processes.hits;
	enum xp_call_mode_option mode = recording->options->call_mode;
	bool has_limit = !hits->stepped && !recording->targets.forecast.sites;
	const char *cheaper = "", *limit = has_limit ? "limit this with --max-overhead 5%, or " : "";
	char rate[48], call[32];

	if (mode == XP_CALL_MODE_OPTION_PROBE && hits->stepped > hits->stub)
		cheaper = ", or omit --call-mode probe";
	else if (mode == XP_CALL_MODE_OPTION_PATCH && hits->stub > hits->stepped)
		cheaper = ", or omit --call-mode patch";
	xp_forecast_format(rate, sizeof(rate), seen->calls_per_s);
	snprintf(call, sizeof(call), seen->call_ns < 1000 ? "%.0f ns" : "%.1f us",
		 seen->call_ns < 1000 ? seen->call_ns : seen->call_ns / 1000);
	xp_warn(
	    "recording costs %.0f %% of the target's CPU time (%s calls/s, %s each); %sexclude the functions that are "
	    "called most with --functions '!NAME' (`xprof report` shows them)%s",
	    100 * seen->share, rate, call, limit, cheaper);
}

void xp_announce(const struct xp_recording *recording)
{
	const struct xp_forecast *forecast = &recording->targets.forecast;
	char places[96];

	if (recording->sampling.sampler)
		xp_info("sampling by %s every %.1f us of CPU time", xp_sampler_event(recording->sampling.sampler),
			xp_sampler_period_ns(recording->sampling.sampler, recording->clock->hz) / 1e3);
	xp_places_text(places, sizeof(places), forecast->sleds, forecast->sites);
	if (!forecast->sleds && !forecast->sites) {
		xp_info("recording; %s", recording->options->child_argv ? "ends with the command" : "^C stops");
		return;
	}
	if (recording->targets.processes.first && !recording->targets.processes.first->next)
		xp_info("recording process %d (%s): %s; %s", recording->targets.processes.first->pid,
			recording->targets.processes.first->comm, places,
			recording->options->child_argv ? "ends when it does" : "^C stops");
	else
		xp_info("recording: %s; ^C stops", places);
}

void xp_announce_forecast(const struct xp_recording *recording)
{
	char text[256];

	xp_forecast_text(&recording->targets.forecast, text, sizeof(text));
	if (text[0])
		xp_info("forecast: %s", text);
}

void xp_announce_flight(void *arg, const struct xp_process *process, const struct xp_flight_log *log)
{
	const struct xp_recording *recording = arg;
	char cause[64] = "", calls[XP_FLIGHT_TEXT_BYTES];
	const char *before = "";

	if (log->error) {
		xp_error("cannot write the newest %" PRIu64 " record%s of process %d (%s) to %s/%s: %s", log->records,
			 xp_plural_s(log->records), process->pid, process->comm, recording->outdir.path, log->name,
			 strerror(-log->error));
		return;
	}
	if (log->cause == XP_FLIGHT_KILLED)
		snprintf(cause, sizeof(cause), ", which was killed by signal %d (%s)", log->signal,
			 sigabbrev_np(log->signal) ?: "?");
	else if (log->cause == XP_FLIGHT_GONE)
		snprintf(cause, sizeof(cause), ", which has vanished");
	xp_flight_text(calls, sizeof(calls), process, log);
	if (calls[0] && !cause[0])
		before = log->cause == XP_FLIGHT_TRIGGER ? "; " : ", which was";
	xp_info("%s/%s: the newest %" PRIu64 " record%s, over %.3f s, of process %d (%s)%s%s%s", recording->outdir.path,
		log->name, log->records, xp_plural_s(log->records),
		log->at_tsc > log->first_tsc ? xp_clock_ns(recording->clock, log->at_tsc - log->first_tsc) / 1e9 : 0,
		process->pid, process->comm, cause, before, calls);
}
