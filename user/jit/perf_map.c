// SPDX-License-Identifier: BSD-2-Clause
#include "jit/perf_map.h"

#include <string.h>

#include "base/util.h"

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * strtoull() would accept a sign and all kinds of white space. Returns NULL if there is no number, or it exceeds 64
 * bits.
 */
static const char *parse_hex(const char *text, uint64_t *value)
{
	const char *first;

	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		text += 2;
	*value = 0;
	for (first = text; digit_of(*text) >= 0; text++) {
		if (*value >> 60)
			return NULL;
		*value = *value << 4 | (uint64_t)digit_of(*text);
	}
	return text > first ? text : NULL;
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
