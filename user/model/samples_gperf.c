// SPDX-License-Identifier: BSD-2-Clause
#include "model/samples_gperf.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/file_view.h"
#include "base/u64_map.h"
#include "base/util.h"

/* A profile while its samples are added. */
struct adding {
	struct xp_model *model;
	const struct xp_code_places *places;
	size_t process; /* of the recording */
	uint32_t thread;
	uint64_t period_ns;
	struct xp_u64_map locations; /* by address */
};

static int find_location(struct adding *adding, uint64_t address, uint32_t *location)
{
	const uint32_t *known = xp_u64_map_find(&adding->locations, address);
	struct xp_model *model = adding->model;
	struct xp_code_place place = { .address = address };
	uint32_t object;
	int err;

	if (known) {
		*location = *known;
		return 0;
	}
	if (xp_code_places_find(adding->places, model->symbolizer, adding->process, address, &place))
		err = xp_code_places_object(model, &place, &object);
	else
		err = xp_model_object_named(model, "[unknown]", "[unknown]", XP_CODE_UNKNOWN, &object);
	if (!err)
		err = xp_model_location(model, object, place.object ? place.address : address, XP_MODEL_NONE, location);
	if (!err && !xp_u64_map_add(&adding->locations, address, *location))
		err = -ENOMEM;
	return err;
}

/*
 * The address of a frame's code. All but the sampled PC are return addresses. xprof writes a second PC that equals the
 * sampled one as one less (format/gperf_quirks.h).
 */
static uint64_t code_address(const struct xp_gperf_reader *reader, const struct xp_gperf_sample *sample, uint64_t i)
{
	uint64_t pc = xp_gperf_reader_pc(reader, sample, i);
	bool is_less = i == 1 && pc + 1 == xp_gperf_reader_pc(reader, sample, 0);

	return i && pc && !is_less ? pc - 1 : pc;
}

static int add_sample(struct adding *adding, const struct xp_gperf_reader *reader, const struct xp_gperf_sample *from)
{
	struct xp_model_sample sample = {
		.thread = adding->thread,
		.cpu = XP_MODEL_CPU_UNKNOWN,
		.values = { from->count, from->count * adding->period_ns },
	};
	int err = 0;

	for (uint64_t i = from->pc_count; !err && i; i--) {
		uint32_t location;

		err = find_location(adding, code_address(reader, from, i - 1), &location);
		if (!err)
			err = xp_model_stack(adding->model, sample.stack, location, &sample.stack);
	}
	return err ? err : xp_model_sample(adding->model, &sample);
}

static int add_profile(struct adding *adding, const struct xp_file_view *view)
{
	struct xp_violation violation;
	struct xp_gperf_reader reader;
	struct xp_gperf_sample sample;
	int err = 0;

	if (xp_gperf_reader_init(&reader, view->bytes, view->size, &violation))
		return 0;
	adding->period_ns = adding->model->period_ns ? adding->model->period_ns : reader.period_us * 1000;
	while (!err && xp_gperf_reader_next(&reader, &sample, &violation) > 0) {
		err = add_sample(adding, &reader, &sample);
		if (err == -E2BIG) {
			adding->model->dropped += sample.count;
			err = 0;
		}
	}
	return err;
}

static int add_process(struct adding *adding, const struct xp_model_source *source, bool *is_selected)
{
	const struct xp_recorded_process *from = &source->recorded->processes[adding->process];
	struct xp_model *model = adding->model;
	const char *comm = xp_facts_comm(source->facts, from->pid, from->image);
	struct xp_model_process process = {
		.pid = from->pid,
		.image = (uint32_t)XP_MIN(from->image, (uint64_t)UINT32_MAX),
		/* Profiles of other makers have no manifest: the file's name tells them apart. */
		.name = xp_model_text(model, comm ? comm : from->name),
	};
	struct xp_model_thread thread = { .name = process.name };
	int err;

	if (!process.name)
		return -ENOMEM;
	err = xp_model_cgroup(model, xp_facts_cgroup(source->facts, from->pid, from->image), &process);
	if (err)
		return err;
	if (!comm)
		process.image = (uint32_t)adding->process + 1;
	*is_selected = xp_select_thread(source->select, process.pid, 0, process.name, NULL);
	err = *is_selected ? xp_model_process(model, &process, &thread.process) : 0;
	return err || !*is_selected ? err : xp_model_thread(model, &thread, &adding->thread);
}

int xp_gperf_samples_add(struct xp_model *model, const struct xp_model_source *source,
			 const struct xp_code_places *places)
{
	int err = 0;

	for (size_t i = 0; !err && i < source->recorded->process_count; i++) {
		struct adding adding = { .model = model, .places = places, .process = i };
		struct xp_file_view view;
		bool is_selected;

		if (!source->recorded->processes[i].profile ||
		    xp_file_view_open(&view, AT_FDCWD, source->recorded->processes[i].profile))
			continue;
		err = add_process(&adding, source, &is_selected);
		if (!err && is_selected)
			err = add_profile(&adding, &view);
		xp_u64_map_free(&adding.locations);
		xp_file_view_close(&view);
	}
	return err;
}
