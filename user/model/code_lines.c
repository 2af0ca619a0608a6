// SPDX-License-Identifier: BSD-2-Clause
#include "model/code_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

struct xp_code_line_table {
	struct xp_code_line *all; /* sorted by address, then by order */
	size_t count;
};

static int compare(const void *a, const void *b)
{
	const struct xp_code_line *x = a, *y = b;

	return xp_compare(x->address, y->address) ?: xp_compare(x->order, y->order);
}

/* A record that is malformed, or whose lines cannot be trusted, has none. */
static int read_table(struct xp_code_line_table *table, const uint8_t *bytes)
{
	struct xp_jitdump_record record;
	struct xp_jitdump_lines lines;
	struct xp_jitdump_line line;
	struct xp_violation violation;

	*table = (struct xp_code_line_table){ 0 };
	if (xp_jitdump_read_record(bytes, 0, &record, &violation) ||
	    record.debug.surplus_bytes > XP_JITDUMP_PADDING_BYTES_MAX)
		return 0;
	table->all = calloc(XP_MAX(record.debug.line_count, (uint64_t)1), sizeof(*table->all));
	if (!table->all)
		return -ENOMEM;
	xp_jitdump_lines_start(&lines, &record);
	while (xp_jitdump_lines_next(&lines, &line)) {
		table->all[table->count] =
		    (struct xp_code_line){ line.address, (uint32_t)table->count, line.line, line.file };
		table->count++;
	}
	qsort(table->all, table->count, sizeof(*table->all), compare);
	return 0;
}

static int get_table(struct xp_code_lines *lines, const uint8_t *record, const struct xp_code_line_table **table)
{
	const uint32_t *known = xp_u64_map_find(&lines->by_record, (uintptr_t)record);

	if (!known) {
		if (XP_ARRAY_RESERVE(lines->tables, lines->room, lines->count + 1) ||
		    read_table(&lines->tables[lines->count], record))
			return -ENOMEM;
		known = xp_u64_map_add(&lines->by_record, (uintptr_t)record, (uint32_t)lines->count++);
		if (!known)
			return -ENOMEM;
	}
	*table = &lines->tables[*known];
	return 0;
}

int xp_code_lines_find(struct xp_code_lines *lines, const uint8_t *record, uint64_t address,
		       const struct xp_code_line **line)
{
	const struct xp_code_line_table *table;
	size_t low;
	int err = get_table(lines, record, &table);

	*line = NULL;
	if (err)
		return err;
	low = XP_FIND_FIRST(table->count, i, table->all[i].address <= address);
	*line = low ? &table->all[low - 1] : NULL;
	return 0;
}

void xp_code_lines_free(struct xp_code_lines *lines)
{
	for (size_t i = 0; i < lines->count; i++)
		free(lines->tables[i].all);
	free(lines->tables);
	xp_u64_map_free(&lines->by_record);
	memset(lines, 0, sizeof(*lines));
}
