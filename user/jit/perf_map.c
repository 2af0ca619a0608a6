// SPDX-License-Identifier: BSD-2-Clause
#include "jit/perf_map.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/*
 * Parses a hexadecimal number of at most 64 bits. Returns the end of the number, or NULL. strtoull() alone would accept
 * a sign and white space.
 */
static const char *parse_hex(const char *text, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = isxdigit((unsigned char)*text) ? strtoull(text, &end, 16) : 0;
	return isxdigit((unsigned char)*text) && !errno ? end : NULL;
}

static const char *skip_blanks(const char *text)
{
	return text + strspn(text, " \t");
}

bool xp_perf_map_parse(struct xp_perf_map_entry *entry, const char *line)
{
	const char *at = parse_hex(skip_blanks(line), &entry->start);

	if (!at || !strchr(" \t", *at))
		return false;
	at = parse_hex(skip_blanks(at), &entry->size);
	if (!at || !*at || !strchr(" \t", *at))
		return false;
	entry->name = skip_blanks(at);
	return *entry->name;
}

int xp_perf_map_feed(struct xp_perf_map *map, const char *text, size_t size,
		     int (*each)(void *arg, const struct xp_perf_map_entry *entry), void *arg)
{
	int err = 0;

	while (size && !err) {
		const char *end = memchr(text, '\n', size);
		size_t length = end ? (size_t)(end - text) : size;
		size_t kept = XP_MIN(length, sizeof(map->line) - 1 - map->used);
		struct xp_perf_map_entry entry;

		memcpy(map->line + map->used, text, kept);
		map->used += kept;
		if (!end)
			return 0;
		map->line[map->used] = 0;
		map->used = 0;
		text += length + 1;
		size -= length + 1;
		if (xp_perf_map_parse(&entry, map->line))
			err = each(arg, &entry);
	}
	return err;
}
