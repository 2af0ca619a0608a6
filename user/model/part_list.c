// SPDX-License-Identifier: BSD-2-Clause
#include "model/part_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_name.h"
#include "base/util.h"
#include "model/recorded.h"
#include "model/select.h"

#define NEVER_NS (1ull << 60) /* later than any time since the start of a recording: 36 years */

/* Parses the times after the @ of a name. */
static int parse_times(const char *text, uint64_t now_s, struct xp_part_times *between)
{
	const char *dots = strstr(text, "..");
	struct xp_moment times[2] = { { XP_MOMENT_NONE, 0 } };
	char from[64];

	if (snprintf(from, sizeof(from), "%.*s", dots ? (int)XP_MIN(dots - text, 64) : 64, text) >= (int)sizeof(from))
		return -EINVAL;
	return xp_moment_parse(from, now_s, &times[0]) ?: (dots ? xp_moment_parse(dots + 2, now_s, &times[1]) : 0)
							      ?: xp_moments_resolve(times, now_s, between);
}

/* ---- parts ---- */

static int add(struct xp_part_list *list, const char *directory, const char *name)
{
	if (XP_ARRAY_RESERVE(list->paths, list->room, list->count + 1))
		return -ENOMEM;
	if (asprintf(&list->paths[list->count], "%s%s%s", directory, *name ? "/" : "", name) < 0)
		return -ENOMEM;
	list->count++;
	return 0;
}

static int is_part(const struct dirent *entry)
{
	uint64_t start_s;

	return xp_file_is_part(entry->d_name, &start_s);
}

/* Adds the parts that overlap the times. A part ends when the next one begins. */
static int add_parts(struct xp_part_list *list, const char *directory, bool *has_parts)
{
	struct dirent **parts = NULL;
	int count = scandir(directory, &parts, is_part, alphasort), err = 0;

	for (int i = 0; i < count; i++) {
		uint64_t start_s = 0, end_s = UINT64_MAX;

		xp_file_is_part(parts[i]->d_name, &start_s);
		*has_parts = true;
		if (i + 1 < count)
			xp_file_is_part(parts[i + 1]->d_name, &end_s);
		if (!err && start_s < (list->times.to_ns - 1) / XP_NS_PER_S + 1 &&
		    end_s >= list->times.from_ns / XP_NS_PER_S)
			err = add(list, directory, parts[i]->d_name);
	}
	for (int i = 0; i < count; i++)
		free(parts[i]);
	free(parts);
	return err;
}

/* Combines the times of --from and --to with those of the name. at: text after its @; NULL: none. */
static int set_times(struct xp_part_list *list, const char *name, const char *at, const struct xp_moment times[2],
		     uint64_t now_s)
{
	struct xp_part_times named;

	if (xp_moments_resolve(times, now_s, &list->times))
		return xp_fail(-EINVAL, "--to is not after --from");
	if (!at)
		return 0;
	if (parse_times(at, now_s, &named))
		return xp_fail(-EINVAL,
			       "%s: after @ comes a time in UTC such as 14:00, yesterdayT14:00..14:10 or 2026-11-27",
			       name);
	list->times.from_ns = XP_MAX(list->times.from_ns, named.from_ns);
	list->times.to_ns = XP_MIN(list->times.to_ns, named.to_ns);
	return 0;
}

int xp_part_list_make(struct xp_part_list *list, const char *name, const struct xp_moment times[2], uint64_t now_s)
{
	const char *at = access(name, F_OK) ? strrchr(name, '@') : NULL;
	char *directory = at ? strndup(name, (size_t)(at - name)) : strdup(name);
	bool has_parts = false;
	int err = directory ? set_times(list, name, at ? at + 1 : NULL, times, now_s) : -ENOMEM;

	err = err ?: add_parts(list, directory, &has_parts);
	if (!err && !list->count && (at || has_parts))
		err = xp_fail(-EINVAL, "%s: there is no part of that time", name);
	if (!err && !list->count)
		err = add(list, name, "");
	free(directory);
	return err;
}

void xp_part_list_free(struct xp_part_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->paths[i]);
	free(list->paths);
	*list = (struct xp_part_list){ 0 };
}

void xp_part_list_select(struct xp_part_list *list, const struct xp_facts *facts, struct xp_select *select)
{
	const struct xp_part_times *times = &list->times;
	const struct xp_facts_summary none = { 0 }, *summary = facts ? xp_facts_summary(facts) : &none;
	uint64_t start_ns = summary->started_ns, end_ns = start_ns + summary->from_ns + summary->length_ns;
	uint64_t from_ns, to_ns;

	if (!list->start_ns)
		list->start_ns = start_ns;
	from_ns = times->since_ns + XP_MIN(list->start_ns, UINT64_MAX - times->since_ns);
	to_ns = times->until_ns + XP_MIN(list->start_ns, UINT64_MAX - times->until_ns);
	/* Without a manifest, no time of day of the recording is known. */
	if (!start_ns && (times->from_ns || times->to_ns != UINT64_MAX))
		from_ns = NEVER_NS;
	from_ns = XP_MAX(from_ns, times->from_ns);
	to_ns = XP_MIN(to_ns, times->to_ns);
	/* A part that is selected completely needs no times. */
	if (from_ns > start_ns)
		select->from_ns = from_ns - start_ns;
	if (to_ns < end_ns || (!end_ns && to_ns != UINT64_MAX))
		select->to_ns = XP_MAX(to_ns, start_ns + 1) - start_ns;
	/* Omits even calls that began in an earlier part, which count at the start. */
	if (to_ns <= start_ns)
		select->from_ns = select->to_ns;
}

int xp_part_list_add(struct xp_part_list *list, struct xp_recorded *recorded, struct xp_select *select, bool *broken)
{
	int err = 0;

	for (size_t i = 0; !err && i < list->count; i++) {
		const struct xp_recorded_directory *part;
		struct xp_select times = { 0 };

		err = xp_recorded_add(recorded, list->paths[i]);
		if (err == -ENOENT && list->count > 1) {
			*broken = true;
			err = 0;
			continue;
		}
		part = err ? NULL : &recorded->directories[recorded->directory_count - 1];
		xp_part_list_select(list, part ? part->facts : NULL, &times);
		if (!part)
			continue;
		if (recorded->directory_count == 1)
			select->from_ns = times.from_ns;
		/* The first part that has an end; of a part that begins later, nothing is selected. */
		if (times.to_ns && !select->to_ns)
			select->to_ns =
			    XP_MAX(part->offset_ns + (times.from_ns == times.to_ns ? 0 : times.to_ns), (uint64_t)1);
	}
	return err ? err : recorded->directory_count ? 0 : -ENOENT;
}
