/* SPDX-License-Identifier: BSD-2-Clause */
/* What is said of a recording before it begins; summary.c tells how it ended. */
#include <stdio.h>

#include "record/recording.h"
#include "base/util.h"

void xp_announce_dry_run(const struct xp_recording *rec)
{
	size_t objects = 0;

	for (const struct xp_process *process = rec->processes.first; process; process = process->next) {
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
	if (rec->survey.made) {
		char text[256];

		xp_survey_text(&rec->survey, text, sizeof(text));
		xp_put_line(stdout, "forecast: %s", text);
	} else if (objects && !rec->multi) {
		xp_put_line(stdout, "no forecast: it needs uprobe_multi, Linux 6.6");
	} else if (!objects && rec->with_samples) {
		xp_put_line(stdout, "samples only");
	}
}

/* An idle target is not worth a word. */
static void say_forecast(const struct xp_recording *rec)
{
	char text[256];

	if (!rec->survey.made || rec->survey.forecast.calls_per_s < 1)
		return;
	xp_survey_text(&rec->survey, text, sizeof(text));
	xp_info("forecast: %s", text);
}

/* What the survey has found too hot for the budget. */
static void say_budget(const struct xp_recording *rec)
{
	const struct xp_throttled *all;
	struct xp_short_text name;
	size_t count;

	if (!rec->throttle)
		return;
	all = xp_throttle_list(rec->throttle, &count);
	if (count)
		xp_info("budget: %s%s not recorded at first, being called too often",
			xp_short_text(&name, all->object->table->functions[all->function_id - 1].name
						 ?: "a function without a name"),
			count > 1 ? " and others are" : " is");
}

static void say_recording(const struct xp_recording *rec)
{
	size_t sleds = 0;

	for (size_t i = 0; i < rec->attached_count; i++)
		sleds += rec->attached[i].sleds.attached;
	if (rec->sampler)
		xp_info("sampling by %s every %.1f us of CPU time", xp_sampler_event(rec->sampler),
			xp_sampler_period_ns(rec->sampler, xp_clock_hz(rec->clock)) / 1e3);
	if (!sleds) {
		xp_info("recording; %s", rec->options->child_argv ? "ends with the command" : "^C stops");
		return;
	}
	if (rec->processes.first && !rec->processes.first->next)
		xp_info("recording process %d (%s): %zu sleds; %s", rec->processes.first->pid,
			rec->processes.first->comm, sleds, rec->options->child_argv ? "ends when it does" : "^C stops");
	else
		xp_info("recording: %zu sleds; ^C stops", sleds);
}

void xp_announce(const struct xp_recording *rec)
{
	say_forecast(rec);
	say_budget(rec);
	say_recording(rec);
}
