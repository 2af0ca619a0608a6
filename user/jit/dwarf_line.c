// SPDX-License-Identifier: BSD-2-Clause
#include "jit/dwarf_line.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"
#include "jit/dwarf_cursor.h"

#define PATH_BYTES (3 * XP_DWARF_TEXT_BYTES_MAX)
#define FORMATS_MAX 16

struct file {
	const char *name;
	uint64_t directory;
	const char *path; /* in struct xp_dwarf_lines; NULL: no line has named the file yet */
};

struct unit {
	uint16_t version;
	unsigned int offset_bytes; /* 4 or 8 */
	uint8_t instruction_bytes_min;
	int8_t line_base;
	uint8_t line_range;
	uint8_t opcode_base;
	uint8_t operand_counts[256];
	const char **directories;
	size_t directory_count;
	struct file *files;
	size_t file_count;
};

struct reader {
	const struct xp_dwarf_line_input *input;
	struct xp_dwarf_lines *lines;
	size_t line_room;
	size_t path_room;
	struct unit unit;
	size_t files_left; /* and directories */
	bool is_full;	   /* no more lines are taken */
};

/* Reads a number that a relocation may replace. */
static uint64_t relocated(const struct reader *reader, struct xp_dwarf_cursor *cursor, unsigned int bytes)
{
	const struct xp_dwarf_line_input *input = reader->input;
	uint64_t offset = cursor->at - input->line.bytes, value = xp_dwarf_fixed(cursor, bytes);

	return input->relocate && !cursor->bad ? input->relocate(input->arg, offset, value) : value;
}

static const char *text_in(const struct reader *reader, struct xp_dwarf_cursor *cursor,
			   const struct xp_dwarf_section *section)
{
	uint64_t offset = relocated(reader, cursor, reader->unit.offset_bytes);
	struct xp_dwarf_cursor there = { .bad = true };
	const char *found;

	if (section->size)
		there = (struct xp_dwarf_cursor){ section->bytes, section->bytes + section->size, cursor->bad };
	xp_dwarf_skip(&there, offset);
	found = xp_dwarf_text(&there);
	cursor->bad |= there.bad;
	return found;
}

/* ---- the header of a unit ---- */

struct format {
	uint64_t content;
	uint64_t form;
};

static void read_form(struct reader *reader, struct xp_dwarf_cursor *cursor, uint64_t form, const char **name,
		      uint64_t *number)
{
	switch (form) {
	case DW_FORM_string:
		*name = xp_dwarf_text(cursor);
		break;
	case DW_FORM_line_strp:
		*name = text_in(reader, cursor, &reader->input->line_str);
		break;
	case DW_FORM_strp:
		*name = text_in(reader, cursor, &reader->input->str);
		break;
	case DW_FORM_udata:
		*number = xp_dwarf_uleb(cursor);
		break;
	case DW_FORM_data1:
		*number = xp_dwarf_fixed(cursor, 1);
		break;
	case DW_FORM_data2:
		*number = xp_dwarf_fixed(cursor, 2);
		break;
	case DW_FORM_data4:
		*number = xp_dwarf_fixed(cursor, 4);
		break;
	case DW_FORM_data8:
		*number = xp_dwarf_fixed(cursor, 8);
		break;
	case DW_FORM_data16:
		xp_dwarf_skip(cursor, 16);
		break;
	case DW_FORM_block:
		xp_dwarf_skip(cursor, xp_dwarf_uleb(cursor));
		break;
	default:
		cursor->bad = true;
	}
}

static struct file read_entry(struct reader *reader, struct xp_dwarf_cursor *cursor, const struct format *formats,
			      size_t count)
{
	struct file file = { .name = "" };

	for (size_t i = 0; i < count && !cursor->bad; i++) {
		const char *name = "";
		uint64_t number = 0;

		read_form(reader, cursor, formats[i].form, &name, &number);
		if (formats[i].content == DW_LNCT_path)
			file.name = name;
		else if (formats[i].content == DW_LNCT_directory_index)
			file.directory = number;
	}
	return file;
}

static size_t read_formats(struct xp_dwarf_cursor *cursor, struct format *formats)
{
	size_t count = xp_dwarf_fixed(cursor, 1);

	if (count > FORMATS_MAX)
		cursor->bad = true;
	for (size_t i = 0; i < count && !cursor->bad; i++)
		formats[i] = (struct format){ xp_dwarf_uleb(cursor), xp_dwarf_uleb(cursor) };
	return count;
}

/* Reads the number of entries of a table. Without a format the entries would take no bytes. */
static size_t read_count(struct reader *reader, struct xp_dwarf_cursor *cursor, size_t format_count)
{
	uint64_t count = xp_dwarf_uleb(cursor);

	if (count > reader->files_left || (count && !format_count))
		cursor->bad = true;
	if (cursor->bad)
		return 0;
	reader->files_left -= count;
	return count;
}

static int read_tables_v5(struct reader *reader, struct xp_dwarf_cursor *cursor)
{
	struct format formats[FORMATS_MAX];
	struct unit *unit = &reader->unit;
	size_t count = read_formats(cursor, formats), directories = read_count(reader, cursor, count), files;

	unit->directories = calloc(directories + 1, sizeof(*unit->directories));
	if (!unit->directories)
		return -ENOMEM;
	for (; unit->directory_count < directories && !cursor->bad; unit->directory_count++)
		unit->directories[unit->directory_count] = read_entry(reader, cursor, formats, count).name;
	count = read_formats(cursor, formats);
	files = read_count(reader, cursor, count);
	unit->files = calloc(files + 1, sizeof(*unit->files));
	if (!unit->files)
		return -ENOMEM;
	for (; unit->file_count < files && !cursor->bad; unit->file_count++)
		unit->files[unit->file_count] = read_entry(reader, cursor, formats, count);
	return 0;
}

static bool more_texts(const struct xp_dwarf_cursor *cursor)
{
	return !cursor->bad && cursor->at < cursor->end && *cursor->at;
}

/* In these versions the tables start at number 1: directory 0 is that of the compilation, and file 0 does not exist. */
static int read_tables_v4(struct reader *reader, struct xp_dwarf_cursor *cursor)
{
	struct unit *unit = &reader->unit;
	size_t room = XP_MIN((size_t)(cursor->end - cursor->at) + 2, reader->files_left + 1);

	unit->directories = calloc(room, sizeof(*unit->directories));
	unit->files = calloc(room, sizeof(*unit->files));
	if (!unit->directories || !unit->files)
		return -ENOMEM;
	unit->directories[unit->directory_count++] = "";
	while (more_texts(cursor) && unit->directory_count < room)
		unit->directories[unit->directory_count++] = xp_dwarf_text(cursor);
	xp_dwarf_skip(cursor, 1);
	unit->files[unit->file_count++].name = "";
	while (more_texts(cursor) && unit->file_count < room) {
		struct file *file = &unit->files[unit->file_count++];

		file->name = xp_dwarf_text(cursor);
		file->directory = xp_dwarf_uleb(cursor);
		xp_dwarf_uleb(cursor); /* modification time */
		xp_dwarf_uleb(cursor); /* length */
	}
	reader->files_left -= XP_MIN(reader->files_left, unit->directory_count + unit->file_count);
	return 0;
}

/* Reads from after the unit's length to the start of its program. */
static int read_header(struct reader *reader, struct xp_dwarf_cursor *cursor)
{
	struct unit *unit = &reader->unit;
	const uint8_t *program;
	uint64_t bytes;
	int err;

	unit->version = xp_dwarf_fixed(cursor, 2);
	if (unit->version < 2 || unit->version > 5) {
		cursor->bad = true;
		return 0;
	}
	if (unit->version >= 5)
		xp_dwarf_skip(cursor, 2); /* sizes of an address and of a segment selector */
	bytes = xp_dwarf_fixed(cursor, unit->offset_bytes);
	if (!xp_dwarf_has(cursor, bytes))
		return 0;
	program = cursor->at + bytes;
	unit->instruction_bytes_min = xp_dwarf_fixed(cursor, 1);
	if (unit->version >= 4)
		xp_dwarf_skip(cursor, 1); /* operations per instruction */
	xp_dwarf_skip(cursor, 1);	  /* whether rows begin statements */
	unit->line_base = (int8_t)xp_dwarf_fixed(cursor, 1);
	unit->line_range = xp_dwarf_fixed(cursor, 1);
	unit->opcode_base = xp_dwarf_fixed(cursor, 1);
	cursor->bad |= !unit->line_range || !unit->opcode_base;
	for (unsigned int i = 1; i < unit->opcode_base; i++)
		unit->operand_counts[i] = xp_dwarf_fixed(cursor, 1);
	if (cursor->bad)
		return 0;
	err = unit->version >= 5 ? read_tables_v5(reader, cursor) : read_tables_v4(reader, cursor);
	cursor->at = program;
	return err;
}

static void free_unit(struct unit *unit)
{
	free(unit->directories);
	free(unit->files);
	*unit = (struct unit){ 0 };
}

/* ---- rows ---- */

struct row {
	uint64_t address;
	uint64_t file;
	uint64_t line;
	uint64_t discriminator;
};

/* Prepends the next directory until the path is absolute. */
static char *join(const struct unit *unit, const struct file *file)
{
	const char *directory = file->directory < unit->directory_count ? unit->directories[file->directory] : "";
	const char *base = unit->version >= 5 && file->directory && unit->directory_count ? unit->directories[0] : "";
	char path[PATH_BYTES];

	if (file->name[0] == '/')
		directory = "";
	if (file->name[0] == '/' || directory[0] == '/')
		base = "";
	snprintf(path, sizeof(path), "%s%s%s%s%s", base, *base ? "/" : "", directory, *directory ? "/" : "",
		 file->name);
	return strdup(path);
}

static const char *path_of(struct reader *reader, uint64_t number)
{
	struct xp_dwarf_lines *lines = reader->lines;
	struct file *file = &reader->unit.files[number];

	if (file->path)
		return file->path;
	if (XP_ARRAY_RESERVE(lines->paths, reader->path_room, lines->path_count + 1))
		return NULL;
	lines->paths[lines->path_count] = join(&reader->unit, file);
	if (lines->paths[lines->path_count])
		file->path = lines->paths[lines->path_count++];
	return file->path;
}

static struct xp_dwarf_line *new_line(struct reader *reader)
{
	struct xp_dwarf_lines *lines = reader->lines;

	if (XP_ARRAY_RESERVE(lines->lines, reader->line_room, lines->count + 1))
		return NULL;
	return &lines->lines[lines->count++];
}

static int add_row(struct reader *reader, const struct row *row)
{
	struct xp_dwarf_line *line;
	const char *file;

	if (row->file >= reader->unit.file_count)
		return 0;
	reader->is_full = reader->lines->count == XP_DWARF_LINES_MAX || reader->lines->path_count == XP_DWARF_PATHS_MAX;
	if (reader->is_full)
		return 0;
	file = path_of(reader, row->file);
	line = file ? new_line(reader) : NULL;
	if (!line)
		return -ENOMEM;
	*line = (struct xp_dwarf_line){
		.address = row->address,
		.line = (uint32_t)row->line,
		.discriminator = (uint32_t)row->discriminator,
		.number = (uint32_t)reader->lines->count,
		.file = file,
	};
	return 0;
}

static const struct row first_row = { .file = 1, .line = 1 };

static void run_extended(struct reader *reader, struct xp_dwarf_cursor *cursor, struct row *row)
{
	uint64_t bytes = xp_dwarf_uleb(cursor);
	const uint8_t *next;

	if (!bytes || !xp_dwarf_has(cursor, bytes)) {
		cursor->bad = true;
		return;
	}
	next = cursor->at + bytes;
	switch (xp_dwarf_fixed(cursor, 1)) {
	case DW_LNE_end_sequence:
		*row = first_row;
		break;
	case DW_LNE_set_address:
		if (bytes == 9)
			row->address = relocated(reader, cursor, 8);
		else
			cursor->bad = true;
		break;
	case DW_LNE_set_discriminator:
		row->discriminator = xp_dwarf_uleb(cursor);
		break;
	default:
		break;
	}
	cursor->at = next;
}

static int run_standard(struct reader *reader, struct xp_dwarf_cursor *cursor, struct row *row, uint8_t opcode)
{
	const struct unit *unit = &reader->unit;
	int err;

	switch (opcode) {
	case DW_LNS_copy:
		err = add_row(reader, row);
		row->discriminator = 0;
		return err;
	case DW_LNS_advance_pc:
		row->address += xp_dwarf_uleb(cursor) * unit->instruction_bytes_min;
		return 0;
	case DW_LNS_advance_line:
		row->line += (uint64_t)xp_dwarf_sleb(cursor);
		return 0;
	case DW_LNS_set_file:
		row->file = xp_dwarf_uleb(cursor);
		return 0;
	case DW_LNS_const_add_pc:
		row->address += (255 - unit->opcode_base) / unit->line_range * unit->instruction_bytes_min;
		return 0;
	case DW_LNS_fixed_advance_pc:
		row->address += xp_dwarf_fixed(cursor, 2);
		return 0;
	default:
		for (unsigned int i = 0; i < unit->operand_counts[opcode]; i++)
			xp_dwarf_uleb(cursor);
		return 0;
	}
}

static int run_special(struct reader *reader, struct row *row, uint8_t opcode)
{
	const struct unit *unit = &reader->unit;
	unsigned int adjusted = opcode - unit->opcode_base;
	int err;

	row->address += adjusted / unit->line_range * unit->instruction_bytes_min;
	row->line += (uint64_t)(int64_t)(unit->line_base + (int)(adjusted % unit->line_range));
	err = add_row(reader, row);
	row->discriminator = 0;
	return err;
}

static int run(struct reader *reader, struct xp_dwarf_cursor *cursor)
{
	struct row row = first_row;
	int err = 0;

	while (!err && !cursor->bad && cursor->at < cursor->end && !reader->is_full) {
		uint8_t opcode = xp_dwarf_fixed(cursor, 1);

		if (opcode >= reader->unit.opcode_base)
			err = run_special(reader, &row, opcode);
		else if (opcode)
			err = run_standard(reader, cursor, &row, opcode);
		else
			run_extended(reader, cursor, &row);
	}
	return err;
}

/* ---- the whole table ---- */

static int read_unit(struct reader *reader, struct xp_dwarf_cursor *all)
{
	struct xp_dwarf_cursor cursor;
	uint64_t bytes;
	int err;

	reader->unit.offset_bytes = 4;
	bytes = xp_dwarf_fixed(all, 4);
	if (bytes == UINT32_MAX) {
		reader->unit.offset_bytes = 8;
		bytes = xp_dwarf_fixed(all, 8);
	}
	if (!xp_dwarf_has(all, bytes))
		return 0;
	cursor = (struct xp_dwarf_cursor){ all->at, all->at + bytes, false };
	all->at += bytes;
	err = read_header(reader, &cursor);
	if (!err)
		err = run(reader, &cursor);
	free_unit(&reader->unit);
	return err;
}

static int by_address(const void *a, const void *b)
{
	const struct xp_dwarf_line *first = a, *second = b;

	if (first->address != second->address)
		return first->address < second->address ? -1 : 1;
	return first->number < second->number ? -1 : 1;
}

/* Of several rows with the same address the last one applies. */
static void tidy(struct xp_dwarf_lines *lines)
{
	size_t kept = 0;

	if (lines->count)
		qsort(lines->lines, lines->count, sizeof(*lines->lines), by_address);
	for (size_t i = 0; i < lines->count; i++) {
		if (i + 1 < lines->count && lines->lines[i + 1].address == lines->lines[i].address)
			continue;
		lines->lines[kept++] = lines->lines[i];
	}
	lines->count = kept;
}

int xp_dwarf_lines_read(struct xp_dwarf_lines *lines, const struct xp_dwarf_line_input *input)
{
	struct xp_dwarf_cursor all = { input->line.bytes, input->line.bytes + input->line.size, false };
	struct reader reader = { .input = input, .lines = lines, .files_left = XP_DWARF_FILES_MAX };
	int err = 0;

	*lines = (struct xp_dwarf_lines){ 0 };
	while (!err && !all.bad && all.at < all.end && !reader.is_full)
		err = read_unit(&reader, &all);
	if (err)
		xp_dwarf_lines_free(lines);
	else
		tidy(lines);
	return err;
}

void xp_dwarf_lines_free(struct xp_dwarf_lines *lines)
{
	for (size_t i = 0; i < lines->path_count; i++)
		free(lines->paths[i]);
	free(lines->paths);
	free(lines->lines);
	*lines = (struct xp_dwarf_lines){ 0 };
}

/* Returns the first line at or after an address. */
static size_t first_from(const struct xp_dwarf_lines *lines, uint64_t address)
{
	size_t low = 0, high = lines->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (lines->lines[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct xp_dwarf_line *xp_dwarf_lines_of(const struct xp_dwarf_lines *lines, uint64_t start, uint64_t size,
					      size_t *count)
{
	size_t first = first_from(lines, start);
	uint64_t end;
	/* A target may make up a size that overflows the address. */
	bool has_end = !__builtin_add_overflow(start, size, &end);

	*count = (has_end ? first_from(lines, end) : lines->count) - first;
	return *count ? lines->lines + first : NULL;
}
