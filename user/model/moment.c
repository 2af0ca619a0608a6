// SPDX-License-Identifier: BSD-2-Clause
#include "model/moment.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/util.h"

#define DAY_S 86400ull

/* Parses a day at the start of *text, and moves *text to the end of it. */
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
	} else if ((end = strptime(*text, "%Y-%m-%d", &tm)) && timegm(&tm) >= 0 &&
		   (uint64_t)timegm(&tm) < UINT64_MAX / XP_NS_PER_S - DAY_S) {
		*day_s = (uint64_t)timegm(&tm);
		*text = end;
	} else {
		return false;
	}
	return true;
}

/* Parses HH:MM, HH:MM:SS or HH:MM:SS.FRACTION, with or without Z. */
static bool parse_clock(const char *text, uint64_t *ns)
{
	struct tm tm = { 0 };
	uint64_t place = XP_NS_PER_S;
	const char *end = strptime(text, "%H:%M", &tm);

	if (end && *end == ':')
		end = strptime(end, ":%S", &tm);
	if (!end)
		return false;
	*ns = ((uint64_t)tm.tm_hour * 3600 + (uint64_t)tm.tm_min * 60 + (uint64_t)tm.tm_sec) * XP_NS_PER_S;
	if (*end == '.' && end[1] >= '0' && end[1] <= '9')
		for (end++; *end >= '0' && *end <= '9'; end++)
			*ns += (uint64_t)(*end - '0') * (place /= 10);
	end += *end == 'Z';
	return !*end;
}

int xp_moment_parse(const char *text, uint64_t now_s, struct xp_moment *moment)
{
	uint64_t day_s = 0;
	bool has_day = take_day(&text, now_s, &day_s);

	*moment = (struct xp_moment){ has_day ? XP_MOMENT_ON_CLOCK : XP_MOMENT_OF_DAY, 0 };
	if (has_day && !*text)
		moment->kind = XP_MOMENT_DAY;
	else if ((has_day && *text++ != 'T') || !parse_clock(text, &moment->ns))
		return -EINVAL;
	moment->ns += day_s * XP_NS_PER_S;
	return 0;
}

int xp_moments_resolve(const struct xp_moment times[2], uint64_t now_s, struct xp_part_times *between)
{
	const uint64_t day_ns = DAY_S * XP_NS_PER_S;
	const struct xp_moment *from = &times[0], *to = &times[1];
	uint64_t date_ns = now_s / DAY_S * day_ns;

	*between = (struct xp_part_times){ .to_ns = UINT64_MAX, .until_ns = UINT64_MAX };
	if (from->kind == XP_MOMENT_OF_RECORDING)
		between->since_ns = from->ns;
	else if (from->kind != XP_MOMENT_NONE)
		between->from_ns = from->ns + (from->kind == XP_MOMENT_OF_DAY ? date_ns : 0);
	if (between->from_ns)
		date_ns = between->from_ns / day_ns * day_ns;
	if (to->kind == XP_MOMENT_OF_RECORDING)
		between->until_ns = to->ns;
	else if (to->kind != XP_MOMENT_NONE)
		between->to_ns = to->ns + (to->kind == XP_MOMENT_OF_DAY ? date_ns
					   : to->kind == XP_MOMENT_DAY	? day_ns
									: 0);
	else if (from->kind == XP_MOMENT_DAY)
		between->to_ns = from->ns + day_ns;
	return between->to_ns > between->from_ns && between->until_ns > between->since_ns ? 0 : -EINVAL;
}
