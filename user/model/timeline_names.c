// SPDX-License-Identifier: BSD-2-Clause
#include "model/timeline_names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/file_view.h"
#include "base/util.h"
#include "elf/demangle.h"
#include "model/log_walk.h"
#include "model/objects.h"

#define UNNAMED (1ull << 32) /* numbers of functions without names begin here */

static uint64_t key_of(size_t process, uint32_t id)
{
	return (uint64_t)process << 32 | id;
}

/* ---- which functions there are ---- */

int xp_timeline_names_add(struct xp_timeline_names *names, size_t process, uint32_t id)
{
	if (id > XP_REPORT_FUNCTIONS_MAX || names->of.count >= XP_TIMELINE_FUNCTIONS_MAX)
		return 0;
	return xp_u64_map_add(&names->of, key_of(process, id), 0) ? 0 : -ENOMEM;
}

/* Enters the functions of a log. */
static int find_ids(struct xp_timeline_names *names, size_t process, struct xp_file_view *view)
{
	struct xp_violation violation;
	struct xp_fdr_record record;
	struct xp_log_cursor cursor;
	uint32_t previous = 0;
	int err = xp_log_cursor_open(&cursor, view, &violation);

	while (!err && xp_log_cursor_next(&cursor, &record, &violation) > 0) {
		uint32_t id = record.is_function ? record.function.fn_id : 0;

		if (id && id != previous)
			err = xp_timeline_names_add(names, process, id);
		previous = id;
	}
	xp_log_cursor_close(&cursor);
	return err == -EBADMSG ? 0 : err;
}

/* Keeps the places of the functions of one log: entries from `first` on. Returns 0 or -ENOMEM. *end: of its entries. */
static int find_places(struct xp_timeline_names *names, size_t first, size_t *end, const char *instr_map)
{
	struct xp_report_functions functions = { 0 };
	size_t process = (size_t)(names->of.entries[first].key >> 32);
	uint32_t last = 0;
	int err;

	for (*end = first; *end < names->of.count && names->of.entries[*end].key >> 32 == process; ++*end)
		last = XP_MAX(last, (uint32_t)names->of.entries[*end].key);
	err = xp_report_functions_find(&functions, last, &names->source->recorded->processes[process], instr_map,
				       names->symbolizer);
	for (size_t i = first; !err && i < *end; i++) {
		uint32_t id = (uint32_t)names->of.entries[i].key;

		if (id >= functions.count || !functions.all[id].has_place)
			continue;
		names->of.entries[i].value = functions.all[id].place + 1;
		names->place_count = XP_MAX(names->place_count, functions.all[id].place + 1);
	}
	xp_report_functions_free(&functions);
	return err;
}

static int find_functions(struct xp_timeline_names *names, bool *broken)
{
	const char *instr_map = names->source->instr_map;
	int err = 0;

	if (instr_map && !xp_report_instr_map_is_good(instr_map, names->symbolizer)) {
		xp_error("%s: " XP_REPORT_NO_INSTR_MAP, instr_map);
		instr_map = NULL;
		*broken = true;
	}
	for (size_t first = 0, end; !err && first < names->of.count; first = end)
		err = find_places(names, first, &end, instr_map);
	return err;
}

/* ---- names ---- */

static int name_place(struct xp_timeline_names *names, uint32_t index)
{
	const struct xp_place *place = xp_symbolizer_place(names->symbolizer, index);
	const struct xp_source_frame *frame = place->frame_count ? &place->frames[place->frame_count - 1] : NULL;
	char room[XP_DEMANGLED_BYTES_MAX + 1];
	const char *name;

	if (!frame || !frame->function)
		return 0;
	name = frame->function;
	if (frame->symbol && !names->full_names) {
		xp_short_name(room, sizeof(room), frame->function);
		name = room;
	}
	names->shown[index] = xp_symbolizer_text(names->symbolizer, name);
	names->marks[index] =
	    xp_select_marks(names->source->select, frame->function, frame->symbol ? frame->symbol : frame->function);
	return names->shown[index] ? 0 : -ENOMEM;
}

int xp_timeline_names_init(struct xp_timeline_names *names, const struct xp_model_source *source, bool full_names)
{
	*names = (struct xp_timeline_names){ .source = source, .full_names = full_names };
	return xp_symbolizer_new(&names->symbolizer, XP_NAMES_FUNCTIONS);
}

int xp_timeline_names_find(struct xp_timeline_names *names, bool *broken)
{
	int err = find_functions(names, broken) ?: xp_symbolizer_run(names->symbolizer);

	if (err)
		return err;
	names->shown = calloc(names->place_count + 1, sizeof(*names->shown));
	names->marks = calloc(names->place_count + 1, 1);
	if (!names->shown || !names->marks)
		return -ENOMEM;
	for (uint32_t i = 0; !err && i < names->place_count; i++)
		err = name_place(names, i);
	return err;
}

int xp_timeline_names_read(struct xp_timeline_names *names, const struct xp_model_source *source, bool full_names,
			   bool *broken)
{
	int err = xp_timeline_names_init(names, source, full_names);

	for (size_t i = 0; !err && i < source->recorded->process_count; i++) {
		const char *path = source->recorded->processes[i].log;
		struct xp_file_view view;

		/* One that cannot be read is reported when its calls are. */
		if (!path || xp_file_view_open(&view, AT_FDCWD, path))
			continue;
		err = find_ids(names, i, &view);
		xp_file_view_close(&view);
	}
	return err ?: xp_timeline_names_find(names, broken);
}

void xp_timeline_names_free(struct xp_timeline_names *names)
{
	xp_symbolizer_free(names->symbolizer);
	xp_u64_map_free(&names->of);
	free(names->shown);
	free(names->marks);
}

const char *xp_timeline_names_get(const struct xp_timeline_names *names, size_t process, uint32_t id,
				  char room[XP_TIMELINE_UNNAMED_BYTES], uint64_t *number, uint8_t *marks)
{
	const uint32_t *place = xp_u64_map_find(&names->of, key_of(process, id));

	if (place && *place && names->shown[*place - 1]) {
		*number = *place;
		*marks = names->marks[*place - 1];
		return names->shown[*place - 1];
	}
	snprintf(room, XP_TIMELINE_UNNAMED_BYTES, "fn_%" PRIu32, id);
	*number = UNNAMED | id;
	*marks = xp_select_marks(names->source->select, room, room);
	return room;
}
