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
#include "base/cpu.h"
#include "base/util.h"
#include "record/recording.h"

/* A short look; if it has not seen enough, a longer one follows. */
#define FIRST_LOOK_US 50000
#define LOOK_US 150000
#define CALLS_ENOUGH 20000
#define CPU_ENOUGH_NS 40000000 /* the kernel reports the CPU time of other processes to about one tick */

/* Owns the programs that count. */
struct counting {
	struct xp_recording *recording;
	struct xp_call_rates *rates;
	struct xp_bpf_side bpf; /* its rings are only for the records made by measuring a hit */
	struct xp_attach *attach;
	uint64_t *counts; /* of all objects, one after the other */
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
	struct xp_recording *recording = counting->recording;
	int fd = xp_mapping_open(pid, mapping);
	const struct xp_object_file file = { fd, mapping->path };
	struct xp_object *object;
	bool malformed;
	int err;

	if (fd < 0)
		return 0;
	err = xp_objects_add(&recording->traced.objects, &object, &file, &malformed, recording->why,
			     sizeof(recording->why));
	close(fd);
	if (!err && malformed)
		xp_warn("%s: %s; its sleds are not recorded", mapping->path, recording->why);
	recording->why[0] = 0;
	if (!err && object->table && object->selected_count)
		err = add_object(counting, object);
	return err;
}

static int find_objects(struct counting *counting)
{
	const struct xp_pid_list *pids = &counting->recording->options->pids;
	int err = 0;

	for (size_t i = 0; i < pids->count && !err; i++) {
		struct xp_mappings mappings;

		err = xp_mappings_read(&mappings, pids->pids[i]);
		if (err)
			break;
		for (size_t m = 0; m < mappings.count && !err; m++)
			err = look_at(counting, pids->pids[i], &mappings.list[m]);
		xp_mappings_free(&mappings);
	}
	return err;
}

static int prepare(struct counting *counting)
{
	struct xp_recording *recording = counting->recording;
	struct xp_programs_options options = {
		.targets = recording->options->pids.count + 1,
		.sleds = true,
		.stub = recording->plan.may_patch,
		.uprobe_multi = true,
		.args = 1,
		.counters = counting->counters + 1,
	};
	int err = xp_bpf_side_open(&counting->bpf, &options, XP_PROBE_COST_RING_BYTES, recording->clock);

	if (!err)
		err = xp_attach_new(&counting->attach, true);
	for (size_t i = 0; i < recording->options->pids.count && !err; i++)
		err = xp_programs_add_target(&counting->bpf.programs, recording->options->pids.pids[i]);
	counting->counts = calloc(counting->counters + 1, sizeof(*counting->counts));
	return err || counting->counts ? err : -ENOMEM;
}

static int attach(struct counting *counting)
{
	const struct xp_pid_list *pids = &counting->recording->options->pids;
	struct xp_call_rates *rates = counting->rates;
	uint32_t first = 0;
	int err = 0;

	for (size_t i = 0; i < rates->object_count && !err; i++) {
		const struct xp_object *object = rates->objects[i].object;
		size_t most = 0;

		for (size_t p = 0; p < pids->count && !err; p++) {
			const struct xp_sled_choice all = { .object = object, .pid = pids->pids[p] };
			size_t sleds;

			err = xp_sleds_attach_counters(counting->attach, xp_programs_count_fd(&counting->bpf.programs),
						       &all, first, &sleds);
			most = XP_MAX(most, sleds);
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

static uint64_t cpu_ns(const struct xp_recording *recording)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < recording->options->pids.count; i++)
		sum += xp_target_cpu_ns(recording->options->pids.pids[i]);
	return sum;
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

static int count_calls(struct counting *counting, struct xp_forecast_input *input)
{
	const struct xp_recording *recording = counting->recording;
	uint64_t *before = calloc(counting->counters, sizeof(*before));
	uint64_t begin_tsc, begin_cpu_ns, begin_calls, calls;
	int err = before ? read_counts(counting, &begin_calls) : -ENOMEM;

	if (err)
		goto out;
	memcpy(before, counting->counts, counting->counters * sizeof(*before));
	begin_tsc = xp_clock_now_tsc();
	begin_cpu_ns = cpu_ns(recording);
	usleep(FIRST_LOOK_US);
	err = read_counts(counting, &calls);
	if (!err && (calls - begin_calls < CALLS_ENOUGH || cpu_ns(recording) - begin_cpu_ns < CPU_ENOUGH_NS)) {
		usleep(LOOK_US);
		err = read_counts(counting, &calls);
	}
	input->cpu_ns = cpu_ns(recording) - begin_cpu_ns;
	input->wall_ns = xp_clock_ns(recording->clock, xp_clock_now_tsc() - begin_tsc);
	input->calls = calls - begin_calls;
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

static unsigned int cpus_max(const struct xp_recording *recording)
{
	unsigned int threads = 0, cpus = 0;

	for (size_t i = 0; i < recording->options->pids.count; i++)
		threads += xp_target_threads(recording->options->pids.pids[i]);
	for (unsigned int cpu = 0; cpu < recording->clock->cpu_count; cpu++)
		cpus += xp_cpu_online(cpu);
	return XP_MAX(XP_MIN(threads, cpus), 1u);
}

static int make_rates(struct counting *counting)
{
	struct xp_call_rates *rates = counting->rates;
	struct xp_forecast_input *input = &rates->input;
	const struct xp_plan *plan = &counting->recording->plan;
	const struct xp_probe_cost_options options = {
		.programs = &counting->bpf.programs,
		.multi = true,
		.stub = plan->may_patch,
		.form = plan->stub_form,
		.memory = plan->memory,
	};
	int err = prepare(counting);

	if (!err)
		err = xp_probe_cost_measure(&rates->probe_cost, &options);
	if (err || !rates->object_count)
		return err;
	err = attach(counting);
	if (!err)
		err = count_calls(counting, input);
	if (counting->attach)
		xp_attach_detach_all(counting->attach);
	if (err)
		return err;
	rates->made = true;
	input->probe_cost = rates->probe_cost;
	input->cpus_max = cpus_max(counting->recording);
	rates->own_ns = input->cpu_ns - XP_MIN(input->calls * rates->probe_cost.entry_ns, input->cpu_ns * 49 / 50);
	return 0;
}

void xp_call_rates_count(struct xp_recording *recording)
{
	struct counting counting = { .recording = recording, .rates = &recording->rates };
	int err;

	if (!recording->plan.multi || !recording->plan.sleds)
		return;
	err = find_objects(&counting);
	if (!err && (counting.counters || recording->options->max_overhead > 0))
		err = make_rates(&counting);
	if (err)
		xp_debug("no forecast: %s", strerror(-err));
	free(counting.counts);
	xp_attach_free(counting.attach);
	xp_bpf_side_close(&counting.bpf);
}

void xp_call_rates_forecast(struct xp_call_rates *rates, const struct xp_probes *probes)
{
	if (!rates->made)
		return;
	rates->input.patched = rates->input.in_memory = rates->input.emulated = 0;
	for (size_t i = 0; i < rates->object_count; i++) {
		const struct xp_sled_result *sleds = xp_probes_cheapest(probes, rates->objects[i].object);

		if (!sleds || sleds->mode == XP_SLEDS_PROBED)
			rates->input.emulated += emulated_calls(&rates->objects[i]);
		else if (sleds->memory)
			rates->input.in_memory += sum_calls(&rates->objects[i]);
		else
			rates->input.patched += sum_calls(&rates->objects[i]);
	}
	xp_forecast_make(&rates->forecast, &rates->input);
}

void xp_call_rates_free(struct xp_call_rates *rates)
{
	for (size_t i = 0; i < rates->object_count; i++)
		free(rates->objects[i].calls);
	free(rates->objects);
	memset(rates, 0, sizeof(*rates));
}

/* A forecast has two significant digits, and groups of three digits are easy to read: "310 000". */
static void format_rate(char *to, size_t size, double rate)
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

void xp_call_rates_text(const struct xp_call_rates *rates, char *text, size_t size)
{
	const struct xp_forecast *forecast = &rates->forecast;
	char rate[48], slower[48] = "";

	format_rate(rate, sizeof(rate), forecast->calls_per_s);
	if (forecast->slowdown >= 1.05)
		snprintf(slower, sizeof(slower), "; it will run %.1f times slower", forecast->slowdown);
	snprintf(text, size,
		 "%zu sleds, about %s calls/s: recording them takes %.*f %% of one core, %.*f %% of the target's CPU "
		 "time%s",
		 rates->sleds, rate, forecast->cost_cores < 0.0995 ? 1 : 0, 100 * forecast->cost_cores,
		 forecast->cost_share < 0.0995 ? 1 : 0, 100 * forecast->cost_share, slower);
}
