/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures what a recording will cost before it begins: for a moment, only entries are counted, without records and
 * without exits, which are expensive where the kernel single-steps them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/util.h"
#include "record/recording.h"

/* A short look; if it has not seen enough, a longer one follows. */
#define FIRST_LOOK_US 50000
#define LOOK_US 150000
#define CALLS_ENOUGH 20000
#define CPU_ENOUGH_NS 40000000 /* the kernel reports the CPU time of other processes to about one tick */

struct surveyor {
	struct xp_recording *recording;
	struct xp_call_rates *survey;
	struct xp_programs programs;
	struct xp_rings *rings; /* only for the records made by measuring a hit */
	struct xp_attach *attach;
	uint64_t *counts; /* of all objects, one after the other */
	uint32_t counters;
};

static int add_object(struct surveyor *surveyor, struct xp_object *object)
{
	struct xp_call_rates *survey = surveyor->survey;
	struct xp_call_rate_object *objects;

	for (size_t i = 0; i < survey->object_count; i++)
		if (survey->objects[i].object == object)
			return 0;
	objects = reallocarray(survey->objects, survey->object_count + 1, sizeof(*objects));
	if (!objects)
		return -ENOMEM;
	survey->objects = objects;
	objects[survey->object_count].object = object;
	objects[survey->object_count].calls = calloc(object->table->function_count + 1, sizeof(uint64_t));
	if (!objects[survey->object_count].calls)
		return -ENOMEM;
	survey->object_count++;
	surveyor->counters += object->table->function_count + 1;
	return 0;
}

static int look_at(struct surveyor *surveyor, pid_t pid, const struct xp_mapping *mapping)
{
	struct xp_recording *recording = surveyor->recording;
	int fd = xp_mapping_open(pid, mapping);
	struct xp_object *object;
	bool malformed;
	int err;

	if (fd < 0)
		return 0;
	err = xp_objects_add(&recording->objects, &object, fd, mapping->path, &malformed, recording->why,
			     sizeof(recording->why));
	close(fd);
	if (!err && malformed)
		xp_warn("%s: %s; its sleds are left alone", mapping->path, recording->why);
	recording->why[0] = 0;
	if (!err && object->table && object->selected_count)
		err = add_object(surveyor, object);
	return err;
}

static int find_objects(struct surveyor *surveyor)
{
	const struct xp_pid_list *pids = &surveyor->recording->options->pids;
	int err = 0;

	for (size_t i = 0; i < pids->count && !err; i++) {
		struct xp_mappings mappings;

		err = xp_mappings_read(&mappings, pids->pids[i]);
		if (err)
			break;
		for (size_t m = 0; m < mappings.count && !err; m++)
			err = look_at(surveyor, pids->pids[i], &mappings.list[m]);
		xp_mappings_free(&mappings);
	}
	return err;
}

static int prepare(struct surveyor *surveyor)
{
	struct xp_recording *recording = surveyor->recording;
	struct xp_programs_options options = {
		.targets = recording->options->pids.count + 1,
		.sleds = true,
		.stub = recording->may_patch,
		.uprobe_multi = true,
		.args = 1,
		.counters = surveyor->counters + 1,
	};
	int err = xp_programs_open(&surveyor->programs, &options);

	if (!err)
		err = xp_rings_open(&surveyor->rings, xp_programs_rings_fd(&surveyor->programs),
				    XP_PROBE_COST_RING_BYTES);
	if (!err)
		err = xp_programs_set_clock(&surveyor->programs, recording->clock);
	if (!err)
		err = xp_attach_new(&surveyor->attach, true);
	for (size_t i = 0; i < recording->options->pids.count && !err; i++)
		err = xp_programs_add_target(&surveyor->programs, recording->options->pids.pids[i]);
	surveyor->counts = calloc(surveyor->counters + 1, sizeof(*surveyor->counts));
	return err || surveyor->counts ? err : -ENOMEM;
}

static int attach(struct surveyor *surveyor)
{
	const struct xp_pid_list *pids = &surveyor->recording->options->pids;
	struct xp_call_rates *survey = surveyor->survey;
	uint32_t first = 0;
	int err = 0;

	for (size_t i = 0; i < survey->object_count && !err; i++) {
		const struct xp_object *object = survey->objects[i].object;
		size_t most = 0;

		for (size_t p = 0; p < pids->count && !err; p++) {
			size_t sleds;

			err = xp_sleds_attach_counters(surveyor->attach, xp_programs_count_fd(&surveyor->programs),
						       object, pids->pids[p], first, NULL, &sleds);
			most = XP_MAX(most, sleds);
		}
		survey->sleds += most;
		first += object->table->function_count + 1;
	}
	return err;
}

static int read_counts(struct surveyor *surveyor, uint64_t *total)
{
	int err = xp_programs_counts(&surveyor->programs, surveyor->counts, surveyor->counters);

	*total = 0;
	for (uint32_t i = 0; i < surveyor->counters; i++)
		*total += surveyor->counts[i];
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
static void keep_counts(struct surveyor *surveyor, const uint64_t *before)
{
	const uint64_t *count = surveyor->counts;

	for (size_t i = 0; i < surveyor->survey->object_count; i++) {
		struct xp_call_rate_object *surveyed = &surveyor->survey->objects[i];

		for (size_t id = 0; id <= surveyed->object->table->function_count; id++)
			surveyed->calls[id] = *count++ - *before++;
	}
}

static int count_calls(struct surveyor *surveyor, struct xp_forecast_input *input)
{
	const struct xp_recording *recording = surveyor->recording;
	uint64_t *before = calloc(surveyor->counters, sizeof(*before));
	uint64_t begin_tsc, begin_cpu_ns, begin_calls, calls;
	int err = before ? read_counts(surveyor, &begin_calls) : -ENOMEM;

	if (err)
		goto out;
	memcpy(before, surveyor->counts, surveyor->counters * sizeof(*before));
	begin_tsc = xp_clock_now_tsc();
	begin_cpu_ns = cpu_ns(recording);
	usleep(FIRST_LOOK_US);
	err = read_counts(surveyor, &calls);
	if (!err && (calls - begin_calls < CALLS_ENOUGH || cpu_ns(recording) - begin_cpu_ns < CPU_ENOUGH_NS)) {
		usleep(LOOK_US);
		err = read_counts(surveyor, &calls);
	}
	input->cpu_ns = cpu_ns(recording) - begin_cpu_ns;
	input->wall_ns = xp_clock_ns(recording->clock, xp_clock_now_tsc() - begin_tsc);
	input->calls = calls - begin_calls;
	keep_counts(surveyor, before);
out:
	free(before);
	return err;
}

static bool is_patched(const struct xp_recording *recording, const struct xp_object *object)
{
	for (size_t i = 0; i < recording->attached_count; i++)
		if (recording->attached[i].object == object && recording->attached[i].sleds.mode == XP_SLEDS_PATCHED)
			return true;
	return false;
}

static uint64_t sum_calls(const struct xp_call_rate_object *surveyed)
{
	uint64_t sum = 0;

	for (size_t id = 0; id <= surveyed->object->table->function_count; id++)
		sum += surveyed->calls[id];
	return sum;
}

/* Calls with exits as cheap as entries: of functions that leave only by tail calls. */
static uint64_t emulated_calls(const struct xp_call_rate_object *surveyed)
{
	const struct xp_sled_table *table = surveyed->object->table;
	bool *stepped = calloc(table->function_count + 1, sizeof(*stepped));
	uint64_t sum = 0;

	for (size_t s = 0; stepped && s < table->sled_count; s++)
		stepped[table->sleds[s].function_id] |= table->sleds[s].kind == XP_SLED_EXIT;
	for (size_t id = 0; stepped && id <= table->function_count; id++)
		sum += stepped[id] ? 0 : surveyed->calls[id];
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

static int make_survey(struct surveyor *surveyor)
{
	struct xp_call_rates *survey = surveyor->survey;
	struct xp_forecast_input *input = &survey->input;
	int err = prepare(surveyor);

	if (!err)
		err = xp_probe_cost_measure(&survey->hit_cost, &surveyor->programs, true,
					    surveyor->recording->may_patch ? &surveyor->recording->stub_form : NULL);
	if (err || !survey->object_count)
		return err;
	err = attach(surveyor);
	if (!err)
		err = count_calls(surveyor, input);
	if (surveyor->attach)
		xp_attach_detach_all(surveyor->attach);
	if (err)
		return err;
	survey->made = true;
	input->hit_cost = survey->hit_cost;
	input->cpus_max = cpus_max(surveyor->recording);
	survey->own_ns = input->cpu_ns - XP_MIN(input->calls * survey->hit_cost.entry_ns, input->cpu_ns * 49 / 50);
	return 0;
}

void xp_call_rates(struct xp_recording *recording)
{
	struct surveyor surveyor = { .recording = recording, .survey = &recording->survey };
	int err;

	if (!recording->multi || !recording->with_sleds)
		return;
	err = find_objects(&surveyor);
	if (!err && (surveyor.counters || recording->options->max_overhead > 0))
		err = make_survey(&surveyor);
	if (err)
		xp_debug("no forecast: %s", strerror(-err));
	free(surveyor.counts);
	xp_attach_free(surveyor.attach);
	xp_programs_close(&surveyor.programs);
	xp_rings_free(surveyor.rings);
}

void xp_call_rate_forecast(struct xp_recording *recording)
{
	struct xp_call_rates *survey = &recording->survey;

	if (!survey->made)
		return;
	survey->input.patched = survey->input.emulated = 0;
	for (size_t i = 0; i < survey->object_count; i++) {
		if (is_patched(recording, survey->objects[i].object))
			survey->input.patched += sum_calls(&survey->objects[i]);
		else
			survey->input.emulated += emulated_calls(&survey->objects[i]);
	}
	xp_forecast_make(&survey->forecast, &survey->input);
}

void xp_call_rates_free(struct xp_call_rates *survey)
{
	for (size_t i = 0; i < survey->object_count; i++)
		free(survey->objects[i].calls);
	free(survey->objects);
	memset(survey, 0, sizeof(*survey));
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

void xp_call_rates_text(const struct xp_call_rates *survey, char *text, size_t size)
{
	const struct xp_forecast *forecast = &survey->forecast;
	char rate[48], slower[48] = "";

	format_rate(rate, sizeof(rate), forecast->calls_per_s);
	if (forecast->slowdown >= 1.05)
		snprintf(slower, sizeof(slower), "; it will run %.1f times slower", forecast->slowdown);
	snprintf(text, size,
		 "%zu sleds, about %s calls/s: recording them takes %.*f %% of one core, %.*f %% of the target's CPU "
		 "time%s",
		 survey->sleds, rate, forecast->cost_cores < 0.0995 ? 1 : 0, 100 * forecast->cost_cores,
		 forecast->cost_share < 0.0995 ? 1 : 0, 100 * forecast->cost_share, slower);
}
