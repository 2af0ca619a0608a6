// SPDX-License-Identifier: BSD-2-Clause
#include "model/jit_codes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/util.h"
#include "base/file_view.h"
#include "format/jitdump_reader.h"

struct xp_jit_code {
	uint64_t moved;	      /* to its present address, from the one in its record */
	const char *name;     /* in the dump */
	const uint8_t *lines; /* its debug record; NULL: none */
};

/* A dump that is being read. */
struct reading {
	struct xp_jit_codes *codes;
	struct xp_perf_track *track;
	const struct xp_perfdata_conversion *conversion;
	const struct xp_jitdump_header *header;
	struct xp_jit_code debug;  /* lines: of the next load */
	struct xp_u64_map by_code; /* by code index: the number of the code */
};

static uint64_t time_of(const struct reading *reading, uint64_t timestamp)
{
	return reading->header->flags & XP_JITDUMP_FLAG_ARCH_TIMESTAMP ? xp_perfdata_ns(reading->conversion, timestamp)
								       : timestamp;
}

static int add_code(struct reading *reading, const struct xp_jit_code *code, uint64_t start, uint64_t bytes,
		    uint64_t timestamp)
{
	struct xp_jit_codes *codes = reading->codes;
	struct xp_span span = { .start = start, .from_ns = time_of(reading, timestamp) };

	if (codes->count == XP_JIT_CODES_MAX || __builtin_add_overflow(start, bytes, &span.end))
		return 0;
	span.index = (uint32_t)codes->count;
	return XP_ARRAY_ADD(codes->all, codes->count, codes->room, *code) ?: xp_spans_add(&reading->track->jit, &span);
}

static int add_load(struct reading *reading, const struct xp_jitdump_record *record)
{
	struct xp_jit_code code = reading->debug;
	uint32_t *number;

	code.name = record->load.name;
	reading->debug = (struct xp_jit_code){ 0 };
	number = xp_u64_map_add(&reading->by_code, record->load.code_index, 0);
	if (!number)
		return -ENOMEM;
	*number = (uint32_t)reading->codes->count;
	return add_code(reading, &code, record->load.code_addr, record->load.code_size, record->timestamp);
}

static int add_move(struct reading *reading, const struct xp_jitdump_record *record)
{
	const uint32_t *number = xp_u64_map_find(&reading->by_code, record->move.code_index);
	struct xp_jit_code code;

	if (!number || *number >= reading->codes->count)
		return 0;
	code = reading->codes->all[*number];
	code.moved += record->move.new_code_addr - record->move.old_code_addr;
	return add_code(reading, &code, record->move.new_code_addr, record->move.code_size, record->timestamp);
}

static int add_record(struct reading *reading, const struct xp_file_view *view, const struct xp_jitdump_record *record)
{
	switch (record->kind) {
	case XP_JITDUMP_LOAD:
		return add_load(reading, record);
	case XP_JITDUMP_MOVE:
		return add_move(reading, record);
	case XP_JITDUMP_DEBUG_INFO:
		reading->debug = (struct xp_jit_code){ .lines = view->bytes + record->offset };
		return 0;
	default:
		return 0;
	}
}

static int read_records(struct reading *reading, struct xp_jitdump_reader *reader, const struct xp_file_view *view,
			struct xp_violation *violation)
{
	struct xp_jitdump_record record;
	int more, err = 0;

	while (!err && (more = xp_jitdump_reader_next(reader, &record, violation)) > 0)
		err = add_record(reading, view, &record);
	return err ? err : more;
}

/* Takes ownership of the view. */
static int add_dump(struct xp_jit_codes *codes, struct xp_file_view *view, struct xp_perf_tracks *tracks,
		    const struct xp_perfdata_conversion *conversion, struct xp_violation *violation)
{
	struct xp_jitdump_reader reader;
	struct reading reading = { .codes = codes, .conversion = conversion, .header = &reader.header };
	int err = xp_jitdump_reader_init(&reader, view->bytes, view->size, violation);

	if (!err)
		err = XP_ARRAY_ADD(codes->dumps, codes->dump_count, codes->dump_room, *view);
	if (err) {
		xp_file_view_close(view);
		return err;
	}
	reading.track = xp_perf_tracks_get(tracks, (int32_t)reader.header.pid);
	if (!reading.track || (!conversion && reader.header.flags & XP_JITDUMP_FLAG_ARCH_TIMESTAMP))
		return 0;
	err = read_records(&reading, &reader, view, violation);
	xp_u64_map_free(&reading.by_code);
	return err;
}

static int is_dump(const struct dirent *entry)
{
	size_t digits = strncmp(entry->d_name, "jit-", 4) == 0 ? strspn(entry->d_name + 4, "0123456789") : 0;

	return digits && strcmp(entry->d_name + 4 + digits, ".dump") == 0;
}

int xp_jit_codes_read(struct xp_jit_codes *codes, const char *directory, struct xp_perf_tracks *tracks,
		      const struct xp_perfdata_conversion *conversion, bool *broken)
{
	int dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
	struct dirent **entries;
	int count = dir_fd < 0 ? -1 : scandirat(dir_fd, ".", &entries, is_dump, alphasort);

	for (int i = 0; i < count; i++) {
		struct xp_violation violation;
		struct xp_file_view view;
		int its_err = err ? err : xp_file_view_open(&view, dir_fd, entries[i]->d_name);

		if (!its_err)
			its_err = add_dump(codes, &view, tracks, conversion, &violation);
		if (its_err == -EBADMSG)
			xp_error("%s/%s: 0x%" PRIx64 ": %s", directory, entries[i]->d_name, violation.offset,
				 violation.text);
		else if (its_err && its_err != -ENOMEM)
			xp_error("%s/%s: cannot read it: %s", directory, entries[i]->d_name,
				 xp_file_view_error(its_err));
		*broken |= its_err && its_err != -ENOMEM;
		if (its_err == -ENOMEM)
			err = its_err;
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	if (dir_fd >= 0)
		close(dir_fd);
	return err;
}

void xp_jit_codes_free(struct xp_jit_codes *codes)
{
	for (size_t i = 0; i < codes->dump_count; i++)
		xp_file_view_close(&codes->dumps[i]);
	free(codes->dumps);
	free(codes->all);
	xp_code_lines_free(&codes->lines);
	memset(codes, 0, sizeof(*codes));
}

/* ---- names ---- */

static int find_line(struct xp_jit_codes *codes, const struct xp_jit_code *code, uint64_t address,
		     struct xp_model *model, struct xp_source_frame *frame)
{
	const struct xp_code_line *line;
	int err = xp_code_lines_find(&codes->lines, code->lines, address, &line);

	if (err || !line)
		return err;
	frame->line = line->line;
	frame->file = xp_model_text(model, line->file);
	return frame->file ? 0 : -ENOMEM;
}

int xp_jit_codes_name(void *arg, struct xp_model *model, const struct xp_model_location *location,
		      struct xp_source_frame *frame)
{
	struct xp_jit_codes *codes = arg;
	const struct xp_jit_code *code = &codes->all[location->jit];

	frame->function = *code->name ? xp_model_text(model, code->name) : NULL;
	if (*code->name && !frame->function)
		return -ENOMEM;
	return code->lines ? find_line(codes, code, location->address - code->moved, model, frame) : 0;
}
