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

static void assert_times(const char *text, uint64_t from_s, uint64_t to_s)
{
	uint64_t from, to;

	assert_int_equal(xp_part_times_parse(text, NOW, &from, &to), 0);
	assert_int_equal(from, from_s);
	assert_true(to == to_s);
}

TEST(times)
{
	static const char *const wrong[] = { "",	"..",		"25:00",
					     "14:00..", "14:00..13:00", "14",
					     "todayT",	"tomorrow",	"2026-11-27 14:00",
					     "14:00Z",	"14:00..14:00", "1.." };
	uint64_t from, to;

	assert_times("14:00", DAY + 14 * 3600, UINT64_MAX);
	assert_times("14:00:01..14:10", DAY + 14 * 3600 + 1, DAY + 14 * 3600 + 600);
	assert_times("yesterday", DAY - 86400, DAY);
	assert_times("today", DAY, DAY + 86400);
	assert_times("yesterdayT14:00..15:00", DAY - 86400 + 14 * 3600, DAY - 86400 + 15 * 3600);
	assert_times("yesterdayT23:00..todayT01:00", DAY - 3600, DAY + 3600);
	assert_times("2026-11-26..2026-11-27", DAY - 86400, DAY + 86400);
	for (size_t i = 0; i < XP_ARRAY_SIZE(wrong); i++)
		assert_int_equal(xp_part_times_parse(wrong[i], NOW, &from, &to), -EINVAL);
}

static void assert_list(const char *name, const char *paths)
{
	struct xp_part_list list = { 0 };
	char found[256] = "";
	size_t used = 0;

	assert_int_equal(xp_part_list_make(&list, name, NOW), 0);
	for (size_t i = 0; i < list.count; i++)
		used += (size_t)snprintf(found + used, sizeof(found) - used, "%s%s", i ? " " : "", list.paths[i]);
	assert_string_equal(found, paths);
	xp_part_list_free(&list);
}

TEST(parts)
{
	char place[] = "/tmp/xprof-list-XXXXXX";
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
	assert_int_equal(xp_part_list_make(&list, "out@yesterday", NOW), -EINVAL);
	xp_part_list_free(&list);
	assert_int_equal(system("rm -rf a@b out"), 0);
	assert_int_equal(rmdir(place), 0);
}
