/* SPDX-License-Identifier: BSD-2-Clause */
/* DIR@FROM..TO: the times, and the parts that they select. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "model/part_list.h"

#define DAY 1795737600ull /* 2026-11-27 */
#define NOW (DAY + 15 * 3600)

/* "FROM..TO" */
static int parse(const char *text, struct xp_part_times *between)
{
	const char *dots = strstr(text, "..");
	struct xp_moment times[2] = { { XP_MOMENT_NONE, 0 } };
	char from[64];

	snprintf(from, sizeof(from), "%.*s", dots ? (int)(dots - text) : 63, text);
	return xp_moment_parse(from, NOW, &times[0]) ?: (dots ? xp_moment_parse(dots + 2, NOW, &times[1]) : 0)
							     ?: xp_moments_resolve(times, NOW, between);
}

static void assert_times(const char *text, uint64_t from_s, uint64_t to_s)
{
	struct xp_part_times between;

	assert_int_equal(parse(text, &between), 0);
	assert_int_equal(between.from_ns, from_s * XP_NS_PER_S);
	assert_true(between.to_ns == (to_s == UINT64_MAX ? to_s : to_s * XP_NS_PER_S));
	assert_true(!between.since_ns && between.until_ns == UINT64_MAX);
}

TEST(times)
{
	static const char *const wrong[] = {
		"",	      "..",	    "25:00",	 "14:00..",	     "14:00..13:00", "14",
		"todayT",     "tomorrow",   "14:00ZZ",	 "2026-11-27 14:00", "14:00..14:00", "1..",
		"9999-01-01", "1969-12-31", "14:00:00.", "today..yesterday"
	};
	struct xp_part_times between;

	assert_times("14:00", DAY + 14 * 3600, UINT64_MAX);
	assert_times("14:00:01..14:10", DAY + 14 * 3600 + 1, DAY + 14 * 3600 + 600);
	assert_times("yesterday", DAY - 86400, DAY);
	assert_times("today", DAY, DAY + 86400);
	assert_times("yesterdayT14:00..15:00", DAY - 86400 + 14 * 3600, DAY - 86400 + 15 * 3600);
	assert_times("yesterdayT23:00..todayT01:00", DAY - 3600, DAY + 3600);
	assert_times("2026-11-26..2026-11-27", DAY - 86400, DAY + 86400);
	assert_times("2026-11-26T14:00:00Z", DAY - 86400 + 14 * 3600, UINT64_MAX);
	assert_int_equal(parse("14:00:00.125164120Z", &between), 0);
	assert_int_equal(between.from_ns, (DAY + 14 * 3600) * XP_NS_PER_S + 125164120);
	for (size_t i = 0; i < XP_ARRAY_SIZE(wrong); i++)
		assert_int_equal(parse(wrong[i], &between), -EINVAL);
}

static const struct xp_moment none[2];

static void assert_list(const char *name, const char *paths)
{
	struct xp_part_list list = { 0 };
	char found[256] = "";
	size_t used = 0;

	assert_int_equal(xp_part_list_make(&list, name, none, NOW), 0);
	for (size_t i = 0; i < list.count; i++)
		used += (size_t)snprintf(found + used, sizeof(found) - used, "%s%s", i ? " " : "", list.paths[i]);
	assert_string_equal(found, paths);
	xp_part_list_free(&list);
}

TEST(parts)
{
	char place[] = "/tmp/xprof-list-XXXXXX";
	const struct xp_moment later[2] = { { XP_MOMENT_ON_CLOCK, (DAY + 14 * 3600 + 300) * XP_NS_PER_S } };
	struct xp_part_list list = { 0 };

	assert_true(mkdtemp(place) && !chdir(place));
	assert_int_equal(mkdir("out", 0700) | mkdir("out/sym", 0700) | mkdir("a@b", 0700), 0);
	assert_int_equal(mkdir("out/20261127T140000Z", 0700) | mkdir("out/20261127T140000Z-001", 0700) |
			     mkdir("out/20261127T141000Z", 0700),
			 0);
	assert_list("out", "out/20261127T140000Z out/20261127T140000Z-001 out/20261127T141000Z");
	assert_list("out@14:05", "out/20261127T140000Z-001 out/20261127T141000Z");
	assert_list("out@13:00..14:05", "out/20261127T140000Z out/20261127T140000Z-001");
	assert_list("out@14:20..14:30", "out/20261127T141000Z");
	assert_list("out/20261127T140000Z", "out/20261127T140000Z");
	assert_list("a@b", "a@b");
	assert_list("absent", "absent");
	assert_int_equal(xp_part_list_make(&list, "out@yesterday", none, NOW), -EINVAL);
	xp_part_list_free(&list);
	assert_int_equal(xp_part_list_make(&list, "out", later, NOW), 0);
	assert_int_equal(list.count, 2);
	xp_part_list_free(&list);
	assert_int_equal(system("rm -rf a@b out"), 0);
	assert_int_equal(rmdir(place), 0);
}
