/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages before a recording begins; those at its end are in summary.c. */
#include <stdio.h>

#include "base/util.h"
#include "record/recording.h"

void xp_announce_dry_run(const struct xp_recording *recording)
{
	size_t objects = 0;

	for (const struct xp_process *process = recording->processes.first; process; process = process->next) {
		xp_put_line(stdout, "process %d (%s)", process->pid, process->comm);
		objects += process->range_count;
		for (size_t i = 0; i < process->range_count; i++) {
			const struct xp_range *range = &process->ranges[i];
			const struct xp_object *object = range->object;

			xp_put_line(stdout, "  %s: %zu functions, %zu sleds, %zu to %s, %zu refused", object->path,
				    object->table->function_count, object->table->sled_count, range->sleds.attached,
				    range->sleds.mode == XP_SLEDS_PATCHED ? "patch" : "probe",
				    range->sleds.patched + range->sleds.unreadable);
		}
		if (process->probed_why[0])
			xp_put_line(stdout, "  probed, not patched: %s", process->probed_why);
	}
	if (recording->survey.made) {
		char text[256];

		xp_call_rates_text(&recording->survey, text, sizeof(text));
		xp_put_line(stdout, "forecast: %s", text);
	} else if (objects && !recording->multi) {
		xp_put_line(stdout, "no forecast: it needs uprobe_multi, Linux 6.6");
	} else if (!objects && recording->with_samples) {
		xp_put_line(stdout, "samples only");
	}
}

/* An idle target needs no message. */
static void say_forecast(const struct xp_recording *recording)
{
	char text[256];

	if (!recording->survey.made || recording->survey.forecast.calls_per_s < 1)
		return;
	xp_call_rates_text(&recording->survey, text, sizeof(text));
	xp_info("forecast: %s", text);
}

/* Names what the count found too hot for the budget. */
static void say_budget(const struct xp_recording *recording)
{
	const struct xp_throttled *all;
	struct xp_short_text name;
	size_t count;

	if (!recording->throttle)
		return;
	all = xp_throttle_list(recording->throttle, &count);
	if (count)
		xp_info("budget: %s%s not recorded at first, being called too often",
			xp_short_text(&name, all->object->table->functions[all->function_id - 1].name
						 ?: "a function without a name"),
			count > 1 ? " and others are" : " is");
}

static void say_recording(const struct xp_recording *recording)
{
	size_t sleds = 0;

	for (size_t i = 0; i < recording->attached_count; i++)
		sleds += recording->attached[i].sleds.attached;
	if (recording->sampler)
		xp_info("sampling by %s every %.1f us of CPU time", xp_sampler_event(recording->sampler),
			xp_sampler_period_ns(recording->sampler, xp_clock_hz(recording->clock)) / 1e3);
	if (!sleds) {
		xp_info("recording; %s", recording->options->child_argv ? "ends with the command" : "^C stops");
		return;
	}
	if (recording->processes.first && !recording->processes.first->next)
		xp_info("recording process %d (%s): %zu sleds; %s", recording->processes.first->pid,
			recording->processes.first->comm, sleds,
			recording->options->child_argv ? "ends when it does" : "^C stops");
	else
		xp_info("recording: %zu sleds; ^C stops", sleds);
}

void xp_announce(const struct xp_recording *recording)
{
	say_forecast(recording);
	say_budget(recording);
	say_recording(recording);
}
