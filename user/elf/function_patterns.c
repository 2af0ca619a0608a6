// SPDX-License-Identifier: BSD-2-Clause
#include "elf/function_patterns.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "base/why.h"
#include "elf/demangle.h"

#define NEAR_NAMES 3
/* The last bytes of a name are compared, because the start is often a namespace that many names share. */
#define NEAR_BYTES 64

struct near_name {
	unsigned int distance;
	char name[4 * NEAR_BYTES];
};

struct use {
	const char *pattern;
	bool has_matched;
	struct near_name near[NEAR_NAMES]; /* the nearest first */
};

struct xp_pattern_uses {
	size_t count;
	struct use all[];
};

static bool matches(const char *pattern, const char *name)
{
	return !strcmp(pattern, name) || !fnmatch(pattern, name, 0);
}

bool xp_pattern_object_matches(const char *glob, const char *path)
{
	return !fnmatch(glob, basename(path), 0) || !fnmatch(glob, path, 0);
}

bool xp_function_matches(const char *pattern, const char *symbol, const char *demangled)
{
	char name[XP_DEMANGLED_BYTES_MAX + 1];

	if (matches(pattern, symbol))
		return true;
	if (!demangled || demangled == symbol)
		return false;
	xp_short_name(name, sizeof(name), demangled);
	return matches(pattern, name) || matches(pattern, demangled);
}

static const char *without_mark(const char *pattern)
{
	return pattern + (*pattern == '!');
}

struct xp_pattern_uses *xp_pattern_uses_new(const char *const *patterns, size_t count)
{
	struct xp_pattern_uses *uses = calloc(1, sizeof(*uses) + count * sizeof(uses->all[0]));

	for (size_t i = 0; uses && i < count; i++) {
		uses->all[i].pattern = without_mark(patterns[i]);
		for (size_t j = 0; j < NEAR_NAMES; j++)
			uses->all[i].near[j].distance = UINT_MAX;
		uses->count++;
	}
	return uses;
}

void xp_pattern_uses_free(struct xp_pattern_uses *uses)
{
	free(uses);
}

/* ---- names like a pattern ---- */

/* Copies the last bytes of a text in lower case, without '*' and '?'. Returns their number. */
static unsigned int reduce(char to[NEAR_BYTES], const char *text)
{
	size_t bytes = strlen(text);
	unsigned int count = 0;

	for (text += bytes > NEAR_BYTES ? bytes - NEAR_BYTES : 0; *text; text++)
		if (*text != '*' && *text != '?')
			to[count++] = (char)tolower((unsigned char)*text);
	return count;
}

/* Returns the Levenshtein distance of a and b, at most `limit`: how many characters to insert, remove or replace. */
static unsigned int distance_of(const char *a, unsigned int a_bytes, const char *b, unsigned int b_bytes,
				unsigned int limit)
{
	unsigned int row[NEAR_BYTES + 1];

	if ((a_bytes > b_bytes ? a_bytes - b_bytes : b_bytes - a_bytes) >= limit)
		return limit;
	for (unsigned int j = 0; j <= b_bytes; j++)
		row[j] = j;
	for (unsigned int i = 1; i <= a_bytes; i++) {
		unsigned int diagonal = row[0];

		row[0] = i;
		for (unsigned int j = 1; j <= b_bytes; j++) {
			unsigned int replaced = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			row[j] = XP_MIN(replaced, XP_MIN(row[j], row[j - 1]) + 1);
		}
	}
	return XP_MIN(row[b_bytes], limit);
}

/* Keeps the name if it is among the nearest. Names that contain the pattern come before others. */
static void note_near(struct use *use, const char *name)
{
	char wanted[NEAR_BYTES], found[NEAR_BYTES];
	unsigned int wanted_bytes = reduce(wanted, use->pattern), found_bytes = reduce(found, name), distance, at;
	bool contains = wanted_bytes && memmem(found, found_bytes, wanted, wanted_bytes);

	distance = contains ? 0 : distance_of(wanted, wanted_bytes, found, found_bytes, NEAR_BYTES);
	for (at = 0; at < NEAR_NAMES && distance >= use->near[at].distance; at++)
		if (!strncmp(use->near[at].name, name, sizeof(use->near[at].name) - 1))
			return;
	if (at == NEAR_NAMES || distance == NEAR_BYTES)
		return;
	memmove(&use->near[at + 1], &use->near[at], (NEAR_NAMES - 1 - at) * sizeof(use->near[0]));
	use->near[at].distance = distance;
	snprintf(use->near[at].name, sizeof(use->near[at].name), "%.*s", (int)sizeof(use->near[at].name) - 1, name);
}

bool xp_pattern_uses_match(struct xp_pattern_uses *uses, const char *const *patterns, size_t index, const char *symbol,
			   const char *demangled)
{
	bool has_matched = xp_function_matches(without_mark(patterns[index]), symbol, demangled);
	struct use *use = uses ? &uses->all[index] : NULL;
	char name[XP_DEMANGLED_BYTES_MAX + 1];

	if (!use || use->has_matched)
		return has_matched;
	use->has_matched = has_matched;
	if (!has_matched) {
		xp_short_name(name, sizeof(name), demangled && demangled != symbol ? demangled : symbol);
		note_near(use, name);
	}
	return has_matched;
}

int xp_pattern_uses_check_of(const struct xp_pattern_uses *uses, const char *option, const char *what)
{
	for (size_t i = 0; uses && i < uses->count; i++) {
		const struct near_name *near = uses->all[i].near;
		bool has_near = near[0].distance != UINT_MAX;

		if (uses->all[i].has_matched)
			continue;
		return xp_why_set(-EDOM, "%s '%s' matches no %s%s%s%s%s%s%s", option, uses->all[i].pattern, what,
				  has_near ? "; the nearest names are " : "", near[0].name, *near[1].name ? ", " : "",
				  near[1].name, *near[2].name ? ", " : "", near[2].name);
	}
	return 0;
}
