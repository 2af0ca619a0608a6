// SPDX-License-Identifier: BSD-2-Clause
#include "model/part_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_name.h"
#include "base/util.h"

#define DAY_S 86400u

/* ---- times ---- */

/* A day at the start of the text, which *text then follows. */
static bool take_day(const char **text, uint64_t now_s, uint64_t *day_s)
{
	uint64_t today_s = now_s - now_s % DAY_S;
	struct tm tm = { 0 };
	const char *end;

	if (!strncmp(*text, "today", 5)) {
		*day_s = today_s;
		*text += 5;
	} else if (!strncmp(*text, "yesterday", 9)) {
		*day_s = today_s - DAY_S;
		*text += 9;
	} else if ((end = strptime(*text, "%Y-%m-%d", &tm))) {
		*day_s = (uint64_t)timegm(&tm);
		*text = end;
	} else {
		return false;
	}
	return true;
}

/* [DAY T] HH:MM[:SS] or DAY. *day_s: the day unless one is given. is_day: it is a day only. */
static bool parse_time(const char *text, uint64_t now_s, uint64_t *day_s, uint64_t *at_s, bool *is_day)
{
	bool has_day = take_day(&text, now_s, day_s);
	struct tm tm = { 0 };
	const char *end;

	*at_s = *day_s;
	*is_day = has_day && !*text;
	if (*is_day)
		return true;
	if (has_day && *text++ != 'T')
		return false;
	end = strptime(text, "%H:%M:%S", &tm);
	if (!end) {
		tm = (struct tm){ 0 };
		end = strptime(text, "%H:%M", &tm);
	}
	*at_s += (uint64_t)tm.tm_hour * 3600 + (uint64_t)tm.tm_min * 60 + (uint64_t)tm.tm_sec;
	return end && !*end;
}

int xp_part_times_parse(const char *text, uint64_t now_s, uint64_t *from_s, uint64_t *to_s)
{
	const char *to = strstr(text, "..");
	uint64_t day_s = now_s - now_s % DAY_S;
	char from[64];
	bool is_day;

	snprintf(from, sizeof(from), "%.*s", to ? (int)XP_MIN(to - text, 63) : 63, text);
	if (!parse_time(from, now_s, &day_s, from_s, &is_day))
		return -EINVAL;
	*to_s = is_day ? *from_s + DAY_S : UINT64_MAX;
	if (!to)
		return 0;
	if (!parse_time(to + 2, now_s, &day_s, to_s, &is_day))
		return -EINVAL;
	*to_s += is_day ? DAY_S : 0;
	return *to_s > *from_s ? 0 : -EINVAL;
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

/* The parts that begin before to_s, and end, with the begin of the next one, after from_s. */
static int add_parts(struct xp_part_list *list, const char *directory)
{
	struct dirent **parts = NULL;
	int count = scandir(directory, &parts, is_part, alphasort), err = 0;

	for (int i = 0; i < count; i++) {
		uint64_t start_s = 0, end_s = UINT64_MAX;

		xp_file_is_part(parts[i]->d_name, &start_s);
		if (i + 1 < count)
			xp_file_is_part(parts[i + 1]->d_name, &end_s);
		if (!err && start_s < list->to_s && end_s >= list->from_s)
			err = add(list, directory, parts[i]->d_name);
	}
	for (int i = 0; i < count; i++)
		free(parts[i]);
	free(parts);
	return err;
}

int xp_part_list_make(struct xp_part_list *list, const char *name, uint64_t now_s)
{
	const char *at = access(name, F_OK) ? strrchr(name, '@') : NULL;
	char *directory = at ? strndup(name, (size_t)(at - name)) : strdup(name);
	int err = directory ? 0 : -ENOMEM;

	list->from_s = 0;
	list->to_s = UINT64_MAX;
	if (!err && at && xp_part_times_parse(at + 1, now_s, &list->from_s, &list->to_s))
		err = xp_fail(-EINVAL,
			      "%s: after @ comes a time in UTC such as 14:00, yesterdayT14:00..14:10 or "
			      "2026-11-27",
			      name);
	err = err ?: add_parts(list, directory);
	if (!err && !list->count && at)
		err = xp_fail(-EINVAL, "%s: there is no part of that time", name);
	if (!err && !list->count)
		err = add(list, name, "");
	free(directory);
	return err;
}

int xp_part_list_one(struct xp_part_list *list, const char *name, uint64_t now_s)
{
	int err = xp_part_list_make(list, name, now_s);

	if (!err && list->count > 1)
		err = xp_fail(-EINVAL, "%s has %zu recordings; name one, such as %s", name, list->count,
			      list->paths[list->count - 1]);
	return err;
}

void xp_part_list_free(struct xp_part_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->paths[i]);
	free(list->paths);
	*list = (struct xp_part_list){ 0 };
}

void xp_part_list_select(const struct xp_part_list *list, const struct xp_facts *facts, struct xp_select *select)
{
	const struct xp_facts_summary none = { 0 }, *summary = facts ? xp_facts_summary(facts) : &none;
	uint64_t start_ns = summary->started_ns, end_ns = start_ns + summary->from_ns + summary->length_ns;
	uint64_t from_ns = list->from_s * XP_NS_PER_S;
	uint64_t to_ns = list->to_s < UINT64_MAX / XP_NS_PER_S ? list->to_s * XP_NS_PER_S : UINT64_MAX;

	if (!start_ns)
		return;
	/* A part that is selected as a whole needs no times. */
	if (from_ns > start_ns)
		select->from_ns = from_ns - start_ns;
	if (to_ns < end_ns)
		select->to_ns = XP_MAX(to_ns, start_ns + 1) - start_ns;
}
