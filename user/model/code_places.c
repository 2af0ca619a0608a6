// SPDX-License-Identifier: BSD-2-Clause
#include "model/code_places.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_view.h"
#include "base/util.h"

/* Reads the list of objects of one profile, which follows its records. */
static int read_objects(struct xp_report_objects *objects, const struct xp_recorded_process *process,
			struct xp_symbolizer *symbolizer, bool *broken)
{
	struct xp_violation violation;
	struct xp_gperf_reader reader;
	struct xp_gperf_sample sample;
	struct xp_file_view view;
	int err = xp_file_view_open(&view, AT_FDCWD, process->profile);

	if (err) {
		xp_error("%s: cannot read it: %s", process->profile, xp_file_view_error(err));
		*broken = true;
		return 0;
	}
	err = xp_gperf_reader_init(&reader, view.bytes, view.size, &violation);
	while (!err && (err = xp_gperf_reader_next(&reader, &sample, &violation)) > 0)
		err = 0;
	if (!err)
		err = xp_report_objects_read(objects, &reader, process, symbolizer, &violation);
	xp_file_view_close(&view);
	if (err != -EBADMSG)
		return err;
	xp_error("%s: 0x%" PRIx64 ": %s", process->profile, violation.offset, violation.text);
	xp_interval_map_sort(&objects->intervals);
	*broken = true;
	return 0;
}

int xp_code_places_read(struct xp_code_places *places, const struct xp_recorded *recorded,
			struct xp_symbolizer *symbolizer, bool *broken)
{
	size_t count = recorded->process_count;
	int err = 0;

	*places = (struct xp_code_places){ .recorded = recorded };
	places->of = calloc(XP_MAX(count, (size_t)1), sizeof(*places->of));
	places->next = calloc(XP_MAX(count, (size_t)1), sizeof(*places->next));
	if (!places->of || !places->next)
		return -ENOMEM;
	for (size_t i = 0; !err && i < count; i++) {
		const struct xp_recorded_process *process = &recorded->processes[i];
		uint32_t *last = xp_u64_map_add(&places->by_pid, process->pid, 0);

		if (!last)
			return -ENOMEM;
		places->next[i] = *last;
		*last = (uint32_t)i + 1;
		if (process->profile)
			err = read_objects(&places->of[i], process, symbolizer, broken);
	}
	return err;
}

void xp_code_places_free(struct xp_code_places *places)
{
	for (size_t i = 0; places->of && i < places->recorded->process_count; i++)
		xp_report_objects_free(&places->of[i]);
	free(places->of);
	free(places->next);
	xp_u64_map_free(&places->by_pid);
	memset(places, 0, sizeof(*places));
}

bool xp_code_places_find(const struct xp_code_places *places, const struct xp_symbolizer *symbolizer, size_t process,
			 uint64_t address, struct xp_code_place *place)
{
	const struct xp_report_objects *objects = &places->of[process];

	place->object = xp_report_objects_find(objects, symbolizer, address, &place->address);
	if (!place->object)
		return false;
	place->is_sym = xp_report_is_sym_file(xp_symbolizer_real_path(symbolizer, place->object->file));
	return true;
}

bool xp_code_places_find_pid(const struct xp_code_places *places, const struct xp_symbolizer *symbolizer, uint64_t pid,
			     uint64_t address, struct xp_code_place *place)
{
	const uint32_t *last = xp_u64_map_find(&places->by_pid, pid);

	for (uint32_t at = last ? *last : 0; at; at = places->next[at - 1])
		if (xp_code_places_find(places, symbolizer, at - 1, address, place))
			return true;
	return false;
}

bool xp_code_places_find_any(const struct xp_code_places *places, const struct xp_symbolizer *symbolizer,
			     uint64_t address, struct xp_code_place *place)
{
	for (size_t i = 0; i < places->recorded->process_count; i++)
		if (xp_code_places_find(places, symbolizer, i, address, place))
			return true;
	return false;
}

/* Code without a file has these names in sym/, and no binary has. */
static enum xp_code_kind kind_of(const struct xp_code_place *place)
{
	const char *name = place->object->name;

	if (strcmp(name, "[unknown]") == 0 || (place->is_sym && strcmp(name, "unknown") == 0))
		return XP_CODE_UNKNOWN;
	if (!place->is_sym)
		return XP_CODE_USER;
	if (strcmp(name, "kernel") == 0)
		return XP_CODE_KERNEL;
	return strcmp(name, "jit") == 0 ? XP_CODE_JIT : XP_CODE_USER;
}

int xp_code_places_object(struct xp_model *model, const struct xp_code_place *place, uint32_t *object)
{
	const struct xp_report_object *from = place->object;
	struct xp_model_object new = { .name = from->name, .file = from->file, .kind = kind_of(place) };
	char name[256];

	if (place->is_sym) {
		snprintf(name, sizeof(name), *from->name == '[' ? "%.250s" : "[%.250s]", from->name);
		new.path = xp_model_text(model, name);
	} else {
		new.path = xp_model_text(model, xp_symbolizer_real_path(model->symbolizer, from->file));
	}
	new.build_id_bytes = xp_symbolizer_build_id(model->symbolizer, from->file, new.build_id);
	return new.path ? xp_model_object(model, &new, object) : -ENOMEM;
}
