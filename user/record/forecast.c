// SPDX-License-Identifier: BSD-2-Clause
#include "record/forecast.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/util.h"
#include "base/why.h"
#include "record/bpf_side.h"
#include "record/targets.h"

/* The cost of a call is known only to about 10 %. */
#define SHARE_MAX 0.95

static int look_at(struct xp_targets *targets, pid_t pid, const struct xp_mapping *mapping, bool *found)
{
	int fd = xp_mapping_open(pid, mapping);
	const struct xp_object_file file = { fd, mapping->path, pid };
	struct xp_object *object;
	int err, refused;

	if (fd < 0)
		return 0;
	err = xp_objects_add(&targets->objects, &object, &file, &refused);
	close(fd);
	if (!err && refused == -EINVAL)
		xp_warn("%s: %s; its sleds are not recorded", mapping->path, xp_why(refused));
	xp_why_clear();
	*found |= !err && object->table && object->selected_count;
	return err;
}

/* Sets whether the process maps a binary with sleds. Returns 0 or -errno: -ECANCELED (interrupt.h). */
static int find_sleds(struct xp_targets *targets, pid_t pid, bool *found)
{
	struct xp_mappings mappings;
	int err = xp_mappings_read(&mappings, pid);

	if (err)
		return err == -ETIMEDOUT ? 0 : err;
	for (size_t m = 0; m < mappings.count && !err && !*found; m++)
		if (mappings.list[m].first == m)
			err = xp_interrupted() ? -ECANCELED : look_at(targets, pid, &mappings.list[m], found);
	xp_mappings_free(&mappings);
	return err;
}

static int measure(struct xp_targets *targets)
{
	const struct xp_plan *plan = targets->plan;
	const struct xp_programs_options programs = {
		.targets = 1,
		.sleds = true,
		.stub = plan->may_patch,
		.uprobe_multi = true,
		.args = 1,
	};
	struct xp_bpf_side bpf = { 0 };
	const struct xp_probe_cost_options options = {
		.programs = &bpf.programs,
		.multi = true,
		.stub = plan->may_patch,
		.memory = plan->memory,
		.rdpid = plan->rdpid,
		.args = targets->options->args,
	};
	int err = xp_bpf_side_open(&bpf, &programs, XP_PROBE_COST_RING_BYTES, targets->clock);

	if (!err)
		err = xp_probe_cost_measure(&targets->forecast.probe_cost, &options);
	xp_bpf_side_close(&bpf);
	return err;
}

void xp_forecast_measure(struct xp_targets *targets)
{
	const struct xp_options *options = targets->options;
	/* Processes or binaries may appear later. */
	bool found = options->max_overhead > 0 || targets->plan->all_processes || options->child_argv;
	int err = 0;

	if (!targets->plan->multi || !targets->plan->sleds)
		return;
	for (size_t i = 0; i < options->pids.count && !found && !err; i++)
		err = find_sleds(targets, options->pids.pids[i], &found);
	if (!err && found)
		err = measure(targets);
	if (err)
		xp_debug("no forecast: %s", strerror(-err));
}

void xp_forecast_expect(struct xp_targets *targets)
{
	const struct xp_probes *probes = &targets->probes;
	struct xp_forecast *forecast = &targets->forecast;
	const struct xp_sled_result *most = NULL;

	for (size_t i = 0; i < probes->attached_count; i++) {
		const struct xp_sled_result *sleds = &probes->attached[i].sleds;

		if (probes->attached[i].object->plan)
			forecast->sites += sleds->attached;
		else
			forecast->sleds += sleds->attached;
		forecast->private_bytes += xp_object_page_bytes(probes->attached[i].object);
		forecast->probed |= sleds->mode == XP_SLEDS_PROBED && sleds->attached;
		if (!most || sleds->attached > most->attached)
			most = sleds;
	}
	if (!most)
		return;
	forecast->call_ns = xp_probe_cost_call_ns(&forecast->probe_cost, most->mode == XP_SLEDS_PROBED ? XP_CALLS_PROBED
									 : most->memory		       ? XP_CALLS_MEMORY
												       : XP_CALLS_STUB);
	if (targets->options->follow && forecast->call_ns > 0)
		forecast->child_ns = xp_probe_cost_call_ns(&forecast->probe_cost, XP_CALLS_CHILD);
	if (forecast->child_ns <= forecast->call_ns)
		forecast->child_ns = 0;
}

void xp_forecast_format(char *to, size_t size, double rate)
{
	uint64_t number = (uint64_t)(rate + 0.5), unit = 1;
	char digits[32];
	int length;

	while (number / unit >= 100)
		unit *= 10;
	length = snprintf(digits, sizeof(digits), "%" PRIu64, (number + unit / 2) / unit * unit);
	for (int i = 0; i < length && size > 2; i++, size--) {
		if (i && (length - i) % 3 == 0) {
			*to++ = ' ';
			size--;
		}
		*to++ = digits[i];
	}
	*to = 0;
}

/* Formats the cost for the targets as one figure. */
static void format_cost(const struct xp_cost_seen *seen, char *text, size_t size)
{
	double factor = 1 / (1 - XP_MIN(seen->share, SHARE_MAX));

	if (factor >= 2)
		snprintf(text, size, ": the target uses %.1f times the CPU time", factor);
	else
		snprintf(text, size, ": the target uses %.*f %% more CPU time", factor < 1.0995 ? 1 : 0,
			 100 * (factor - 1));
}

void xp_places_text(char *text, size_t size, size_t sleds, size_t sites)
{
	char of_functions[48];

	snprintf(of_functions, sizeof(of_functions), "%zu entr%s and exit%s", sites, sites == 1 ? "y" : "ies",
		 xp_plural_s(sites));
	if (sleds || !sites)
		snprintf(text, size, "%zu sled%s%s%s", sleds, xp_plural_s(sleds), sites ? " and " : "",
			 sites ? of_functions : "");
	else
		snprintf(text, size, "%s", of_functions);
}

void xp_forecast_text(const struct xp_forecast *forecast, char *text, size_t size)
{
	const struct xp_cost_seen *seen = &forecast->seen;
	const double call_ns = seen->call_ns > 0 ? seen->call_ns : forecast->call_ns;
	char places[96], rate[48], calls[64], full[48], cost[96] = "", children[64] = "", memory[64] = "";

	*text = 0;
	if (!(call_ns > 0) || !(forecast->sleds + forecast->sites))
		return;
	xp_places_text(places, sizeof(places), forecast->sleds, forecast->sites);
	xp_forecast_format(rate, sizeof(rate), seen->calls_per_s);
	if (seen->calls_per_s >= 1)
		snprintf(calls, sizeof(calls), "about %s calls/s", rate);
	else
		snprintf(calls, sizeof(calls), "%s", forecast->made ? "no calls now" : "calls not counted");
	if (seen->share > 0)
		format_cost(seen, cost, sizeof(cost));
	xp_forecast_format(full, sizeof(full), XP_NS_PER_S / call_ns);
	/* 1 000 calls of 10 us are 1 % of a second. */
	if (forecast->child_ns > 0)
		snprintf(children, sizeof(children), "; in children of the target %.2g %%", forecast->child_ns / 1e4);
	if (forecast->private_bytes)
		snprintf(memory, sizeof(memory), "; %" PRIu64 " KiB of code become private memory",
			 forecast->private_bytes / 1024);
	snprintf(text, size, "%s, %s%s; 1 000 calls/s take %.2g %% of a core, %s a whole one%s%s", places, calls, cost,
		 call_ns / 1e4, full, children, memory);
}
