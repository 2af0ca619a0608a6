/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For a moment, only entries are counted, without records and without exits, which are expensive where the kernel
 * single-steps them.
 */
#include "record/call_rate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/util.h"
#include "base/why.h"
#include "record/family.h"
#include "record/follow.h"
#include "record/bpf_side.h"
#include "record/targets.h"
#include "target/chosen_file.h"

/* A short look; if it has not seen enough, a longer one follows. */
#define FIRST_LOOK_US 50000
#define LOOK_US 150000
#define CALLS_ENOUGH 20000
/* Processes whose objects are looked for; the others mostly have the same. */
#define LOOKED_AT_MAX 256
/*
 * Probes of the count, over all processes; of more functions, a part is counted. Each probe takes 10 us to set and to
 * take away, and a call that it counts half a microsecond: with 13 000 in 3 processes, all calling at full speed, these
 * did 4 % of their work for a second.
 */
#define COUNTED_MAX 2000
#define CPU_ENOUGH_NS 40000000 /* the kernel reports the CPU time of other processes to about one tick */

/* Owns the programs that count. */
struct counting {
	struct xp_targets *targets;
	struct xp_call_rates *rates;
	struct xp_bpf_side bpf; /* its rings are only for the records made by measuring a hit */
	struct xp_attach *attach;
	struct xp_family family; /* when the count began */
	uint64_t *counts;	 /* of all objects, one after the other */
	uint32_t counters;
};

static int add_object(struct counting *counting, struct xp_object *object)
{
	struct xp_call_rates *rates = counting->rates;
	struct xp_call_rate_object *added;

	for (size_t i = 0; i < rates->object_count; i++)
		if (rates->objects[i].object == object)
			return 0;
	if (XP_ARRAY_RESERVE(rates->objects, rates->object_room, rates->object_count + 1))
		return -ENOMEM;
	added = &rates->objects[rates->object_count];
	added->object = object;
	added->calls = calloc(object->table->function_count + 1, sizeof(*added->calls));
	if (!added->calls)
		return -ENOMEM;
	rates->object_count++;
	counting->counters += object->table->function_count + 1;
	return 0;
}

static int look_at(struct counting *counting, pid_t pid, const struct xp_mapping *mapping)
{
	struct xp_targets *targets = counting->targets;
	int fd = xp_mapping_open(pid, mapping);
	const struct xp_object_file file = { fd, mapping->path };
	struct xp_object *object;
	struct stat st;
	int err, refused;

	if (fd < 0)
		return 0;
	if (targets->options->exec_path &&
	    (fstat(fd, &st) || (xp_chosen_original(&st), !xp_follow_same_file(&st, &targets->plan->exec_file)))) {
		close(fd);
		return 0;
	}
	err = xp_objects_add(&targets->objects, &object, &file, &refused);
	close(fd);
	if (!err && refused == -EINVAL)
		xp_warn("%s: %s; its sleds are not recorded", mapping->path, xp_why(refused));
	xp_why_clear();
	if (!err && object->table && !object->plan && object->selected_count)
		err = add_object(counting, object);
	return err;
}

/* A process that has ended meanwhile has no mappings, which is an error only of those that the user has named. */
static int find_objects(struct counting *counting)
{
	const struct xp_family *family = &counting->family;
	int err = 0;

	for (size_t i = 0; i < XP_MIN(family->count, LOOKED_AT_MAX) && !err; i++) {
		struct xp_mappings mappings;

		err = xp_mappings_read(&mappings, family->list[i].pid);
		if (err == -ETIMEDOUT || (err && i >= counting->targets->options->pids.count)) {
			err = 0;
			continue;
		}
		if (err)
			break;
		for (size_t m = 0; m < mappings.count && !err; m++)
			if (mappings.list[m].first == m)
				err = look_at(counting, family->list[i].pid, &mappings.list[m]);
		xp_mappings_free(&mappings);
	}
	return err;
}

static int prepare(struct counting *counting)
{
	struct xp_targets *targets = counting->targets;
	struct xp_programs_options options = {
		.targets = targets->plan->all_processes ? XP_TARGETS_MAX : targets->options->pids.count + 1,
		.tasks = targets->plan->all_processes,
		/* Those of a program of --exec have its probes, too. */
		.follow_children = targets->plan->all_processes,
		.exec_inode = targets->options->exec_path ? targets->plan->exec_file.st_ino : 0,
		.sleds = true,
		.stub = targets->plan->may_patch,
		.uprobe_multi = true,
		.args = 1,
		.counters = counting->counters + 1,
	};
	int err = xp_bpf_side_open(&counting->bpf, &options, XP_PROBE_COST_RING_BYTES, targets->clock);

	if (!err)
		err = xp_attach_new(&counting->attach, true);
	if (!err && targets->plan->all_processes)
		err = xp_programs_attach_tasks(&counting->bpf.programs);
	for (size_t i = 0; i < counting->family.count && !err; i++)
		err = xp_programs_add_target(&counting->bpf.programs, counting->family.list[i].pid);
	counting->counts = calloc(counting->counters + 1, sizeof(*counting->counts));
	return err || counting->counts ? err : -ENOMEM;
}

/* Spread over the program: functions beside each other are of one kind. */
static bool is_counted(const void *arg, uint32_t function_id)
{
	return (function_id * 0x9e3779b1u >> 16) % *(const uint32_t *)arg == 0;
}

/* A budget is to know all that is hot. */
static void choose_counted(struct counting *counting)
{
	const size_t probes = counting->counters * XP_MAX(counting->family.count, 1u);

	counting->rates->input.every = 1;
	if (!(counting->targets->options->max_overhead > 0))
		counting->rates->input.every = (uint32_t)((probes + COUNTED_MAX - 1) / COUNTED_MAX);
}

static int attach(struct counting *counting)
{
	const struct xp_pid_list *pids = &counting->targets->options->pids;
	bool everywhere = counting->targets->plan->all_processes;
	struct xp_call_rates *rates = counting->rates;
	uint32_t first = 0;
	int err = 0;

	for (size_t i = 0; i < rates->object_count && !err; i++) {
		const struct xp_object *object = rates->objects[i].object;
		size_t most = 0;

		for (size_t p = 0; p < (everywhere ? 1 : pids->count) && !err; p++) {
			const struct xp_sled_choice counted = { .object = object,
								.pid = everywhere ? 0 : pids->pids[p],
								.wanted = is_counted,
								.arg = &rates->input.every };
			size_t sleds;

			err = xp_sleds_attach_counters(counting->attach, xp_programs_count_fd(&counting->bpf.programs),
						       &counted, first, &sleds);
			most = XP_MAX(most, rates->input.every > 1 ? object->selected_count : sleds);
		}
		rates->sleds += most;
		first += object->table->function_count + 1;
	}
	return err;
}

static int read_counts(struct counting *counting, uint64_t *total)
{
	int err = xp_programs_counts(&counting->bpf.programs, counting->counts, counting->counters);

	*total = 0;
	for (uint32_t i = 0; i < counting->counters; i++)
		*total += counting->counts[i];
	return err;
}

/* The count begins: processes that have ended since the family was found do not take part. */
static int begin_count(struct counting *counting)
{
	struct xp_family now = { 0 };
	int err = xp_family_find(&now, counting->targets);

	if (err) {
		xp_family_free(&now);
		return err;
	}
	xp_family_free(&counting->family);
	counting->family = now;
	return 0;
}

/* The CPU time of the targets since the count began. */
static int read_cpu(const struct counting *counting, uint64_t *cpu_ns)
{
	struct xp_family now = { 0 };
	int err = xp_family_find(&now, counting->targets);

	*cpu_ns = err ? 0 : xp_family_cpu_ns(&counting->family, &now);
	xp_family_free(&now);
	return err;
}

/* The counters already counted while they were being attached; these calls are subtracted. */
static void keep_counts(struct counting *counting, const uint64_t *before)
{
	const uint64_t *count = counting->counts;

	for (size_t i = 0; i < counting->rates->object_count; i++) {
		struct xp_call_rate_object *counted = &counting->rates->objects[i];

		for (size_t id = 0; id <= counted->object->table->function_count; id++)
			counted->calls[id] = *count++ - *before++;
	}
}

static int count_for(struct counting *counting, useconds_t duration_us, uint64_t *calls, uint64_t *cpu_ns)
{
	int err;

	usleep(duration_us);
	err = read_counts(counting, calls);
	return err ? err : read_cpu(counting, cpu_ns);
}

static int count_calls(struct counting *counting, struct xp_forecast_input *input)
{
	const struct xp_targets *targets = counting->targets;
	uint64_t *before = calloc(counting->counters, sizeof(*before));
	uint64_t begin_tsc, begin_calls, calls, cpu_ns;
	int err = before ? read_counts(counting, &begin_calls) : -ENOMEM;

	if (err)
		goto out;
	memcpy(before, counting->counts, counting->counters * sizeof(*before));
	begin_tsc = xp_clock_now_tsc();
	err = begin_count(counting);
	if (!err)
		err = count_for(counting, FIRST_LOOK_US, &calls, &cpu_ns);
	if (!err && (calls - begin_calls < CALLS_ENOUGH || cpu_ns < CPU_ENOUGH_NS))
		err = count_for(counting, LOOK_US, &calls, &cpu_ns);
	if (err)
		goto out;
	input->cpu_ns = cpu_ns;
	input->wall_ns = xp_clock_ns(targets->clock, xp_clock_now_tsc() - begin_tsc);
	input->calls = (calls - begin_calls) * input->every;
	keep_counts(counting, before);
out:
	free(before);
	return err;
}

static uint64_t sum_calls(const struct xp_call_rate_object *counted)
{
	uint64_t sum = 0;

	for (size_t id = 0; id <= counted->object->table->function_count; id++)
		sum += counted->calls[id];
	return sum;
}

/* Calls with exits as cheap as entries: of functions that leave only by tail calls. */
static uint64_t emulated_calls(const struct xp_call_rate_object *counted)
{
	const struct xp_sled_table *table = counted->object->table;
	bool *stepped = calloc(table->function_count + 1, sizeof(*stepped));
	uint64_t sum = 0;

	for (size_t s = 0; stepped && s < table->sled_count; s++)
		stepped[table->sleds[s].function_id] |= table->sleds[s].kind == XP_SLED_EXIT;
	for (size_t id = 0; stepped && id <= table->function_count; id++)
		sum += stepped[id] ? 0 : counted->calls[id];
	free(stepped);
	return sum;
}

static unsigned int cpus_max(const struct counting *counting)
{
	unsigned int threads = xp_family_threads(&counting->family);
	unsigned int cpus = (unsigned int)XP_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);

	return XP_MAX(XP_MIN(threads, cpus), 1u);
}

static int make_rates(struct counting *counting)
{
	struct xp_call_rates *rates = counting->rates;
	struct xp_forecast_input *input = &rates->input;
	const struct xp_plan *plan = counting->targets->plan;
	const struct xp_probe_cost_options options = {
		.programs = &counting->bpf.programs,
		.multi = true,
		.stub = plan->may_patch,
		.memory = plan->memory,
		.rdpid = plan->rdpid,
		.args = counting->targets->options->args,
	};
	int err = prepare(counting);

	if (!err)
		err = xp_probe_cost_measure(&rates->probe_cost, &options);
	if (err || !rates->object_count)
		return err;
	choose_counted(counting);
	err = attach(counting);
	if (!err)
		err = count_calls(counting, input);
	if (counting->attach)
		xp_attach_detach_all(counting->attach);
	if (err)
		return err;
	rates->made = true;
	input->probe_cost = rates->probe_cost;
	input->cpus_max = cpus_max(counting);
	rates->own_ns = input->cpu_ns -
			XP_MIN(input->calls / input->every * rates->probe_cost.counting_ns, input->cpu_ns * 49 / 50);
	return 0;
}

void xp_call_rates_count(struct xp_targets *targets)
{
	struct counting counting = { .targets = targets, .rates = &targets->rates };
	bool unseen;
	int err;

	if (!targets->plan->multi || !targets->plan->sleds)
		return;
	/* Without objects there is nothing to count, but some may come. */
	unseen = targets->options->max_overhead > 0 || targets->plan->all_processes || targets->options->child_argv;
	err = xp_family_find(&counting.family, targets);
	if (!err)
		err = find_objects(&counting);
	if (!err && (counting.counters || unseen))
		err = make_rates(&counting);
	if (err)
		xp_debug("no forecast: %s", strerror(-err));
	targets->rates.processes = counting.family.count;
	targets->rates.follows = targets->options->follow;
	targets->rates.has_children = targets->options->follow && counting.family.count > targets->options->pids.count;
	xp_family_free(&counting.family);
	free(counting.counts);
	xp_attach_free(counting.attach);
	xp_bpf_side_close(&counting.bpf);
}

/* Of the object with most sleds. */
static double typical_call_ns(const struct xp_call_rates *rates, const struct xp_probes *probes)
{
	const struct xp_sled_result *most = NULL;

	for (size_t i = 0; i < probes->attached_count; i++)
		if (!most || probes->attached[i].sleds.attached > most->attached)
			most = &probes->attached[i].sleds;
	if (!most)
		return 0;
	return xp_probe_cost_call_ns(&rates->probe_cost, most->mode == XP_SLEDS_PROBED ? XP_CALLS_PROBED
							 : most->memory		       ? XP_CALLS_MEMORY
										       : XP_CALLS_STUB);
}

/* Of each way, from the calls that were counted. */
static void forecast_counted(struct xp_call_rates *rates, const struct xp_probes *probes)
{
	const uint32_t every = rates->input.every;

	rates->input.patched = rates->input.in_memory = rates->input.emulated = 0;
	rates->input.in_children = rates->has_children;
	for (size_t i = 0; i < rates->object_count; i++) {
		const struct xp_sled_result *sleds = xp_probes_cheapest(probes, rates->objects[i].object);

		if (!sleds || sleds->mode == XP_SLEDS_PROBED)
			rates->input.emulated += every * emulated_calls(&rates->objects[i]);
		else if (sleds->memory && !rates->has_children)
			rates->input.in_memory += every * sum_calls(&rates->objects[i]);
		else
			rates->input.patched += every * sum_calls(&rates->objects[i]);
	}
	xp_forecast_make(&rates->forecast, &rates->input);
}

void xp_call_rates_forecast(struct xp_call_rates *rates, const struct xp_probes *probes)
{
	double typical_ns = typical_call_ns(rates, probes);

	rates->call_ns = typical_ns;
	if (!rates->made)
		rates->sleds = xp_probes_sum(probes).attached;
	else
		forecast_counted(rates, probes);
	if (rates->made && rates->forecast.call_ns > 0)
		rates->call_ns = rates->forecast.call_ns;
	if (rates->follows && typical_ns > 0)
		rates->child_ns = XP_MAX(xp_probe_cost_call_ns(&rates->probe_cost, XP_CALLS_CHILD), typical_ns);
	if (rates->child_ns <= rates->call_ns)
		rates->child_ns = 0;
}

void xp_call_rates_free(struct xp_call_rates *rates)
{
	for (size_t i = 0; i < rates->object_count; i++)
		free(rates->objects[i].calls);
	free(rates->objects);
	memset(rates, 0, sizeof(*rates));
}

void xp_call_rates_format(char *to, size_t size, double rate)
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

/* What the recording does to the target, in one figure: how much longer it runs, or else how much more CPU it uses. */
static void format_cost(const struct xp_forecast *forecast, char *text, size_t size)
{
	double factor = 1 / (1 - XP_MIN(forecast->cost_share, 0.999));

	if (forecast->slowdown >= 1.05)
		snprintf(text, size, ": the target will run %.1f times slower", forecast->slowdown);
	else if (factor >= 2)
		snprintf(text, size, ": the target will use %.1f times the CPU time", factor);
	else
		snprintf(text, size, ": the target will use %.*f %% more CPU time", factor < 1.0995 ? 1 : 0,
			 100 * (factor - 1));
}

void xp_call_rates_text(const struct xp_call_rates *rates, char *text, size_t size)
{
	bool called = rates->made && rates->forecast.calls_per_s >= 1;
	char rate[48] = "", full[48], cost[96] = "", children[64] = "", part[48] = "";

	*text = 0;
	if (!(rates->call_ns > 0) || !rates->sleds)
		return;
	if (called) {
		xp_call_rates_format(rate, sizeof(rate), rates->forecast.calls_per_s);
		format_cost(&rates->forecast, cost, sizeof(cost));
	}
	xp_call_rates_format(full, sizeof(full), XP_NS_PER_S / rates->call_ns);
	/* 1 000 calls of 10 us are 1 % of a second. */
	if (rates->child_ns > 0)
		snprintf(children, sizeof(children), "; in children of the target %.2g %%", rates->child_ns / 1e4);
	if (called && rates->input.every > 1)
		snprintf(part, sizeof(part), " (counted: 1 function in %u)", rates->input.every);
	snprintf(text, size, "%zu sled%s, %s%s%s%s%s; 1 000 calls/s take %.2g %% of a core, %s a whole one%s",
		 rates->sleds, xp_plural_s(rates->sleds), called ? "about " : "no calls now", rate,
		 called ? " calls/s" : "", part, cost, rates->call_ns / 1e4, full, children);
}
