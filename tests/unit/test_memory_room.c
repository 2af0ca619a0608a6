// SPDX-License-Identifier: BSD-2-Clause
/* The memory that cgroups leave: the minimum over a group and its parents, in both versions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "unit.h"

#include "base/memory_room.h"

static char root[64], groups[80];

static int set_up(void **state)
{
	(void)state;
	strcpy(root, "/tmp/xprof-test-room-XXXXXX");
	if (!mkdtemp(root))
		return -1;
	snprintf(groups, sizeof(groups), "%s/groups", root);
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

static void put(const char *path, const char *name, const char *text)
{
	char full[256];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	mkdir(full, 0700);
	snprintf(full, sizeof(full), "%s%s/%s", root, path, name);
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static uint64_t room_of(const char *of)
{
	put("", "groups", of);
	return xp_memory_room_in(groups, root);
}

TEST_WITH(test_version_2, set_up, tear_down)
{
	put("/a", "memory.max", "1000\n");
	put("/a", "memory.current", "900\n");
	put("/a", "memory.stat", "anon 500\nactive_file 300\ninactive_file 50\nshmem 7\n");
	put("/a/b", "memory.max", "max\n");
	put("/a/b", "memory.current", "10\n");
	put("/a/c", "memory.max", "70\n");
	put("/a/c", "memory.current", "30\n");
	assert_int_equal(room_of("0::/a/b\n"), 450);
	assert_int_equal(room_of("0::/a\n"), 450);
	assert_int_equal(room_of("0::/a/c\n"), 40);
	put("/a/c", "memory.current", "80\n");
	assert_int_equal(room_of("0::/a/c\n"), 0);
	put("/a/c", "memory.stat", "inactive_file 5000\n");
	assert_int_equal(room_of("0::/a/c\n"), 70);
	assert_int_equal(room_of("0::/\n"), UINT64_MAX);
	/* A group that is not visible here, below a visible one. */
	assert_int_equal(room_of("0::/a/x/y\n"), 450);
	assert_int_equal(room_of("0::/../..\n"), UINT64_MAX);
}

TEST_WITH(test_version_1, set_up, tear_down)
{
	put("/memory", "memory.limit_in_bytes", "5000\n");
	put("/memory", "memory.usage_in_bytes", "4000\n");
	put("/memory", "memory.stat", "inactive_file 9\ntotal_inactive_file 100\ntotal_active_file 200\n");
	put("/memory/g", "memory.limit_in_bytes", "9223372036854771712\n");
	put("/memory/g", "memory.usage_in_bytes", "1\n");
	assert_int_equal(room_of("4:memory:/g\n3:cpu:/z\n0::/\n"), 1300);
	assert_int_equal(room_of("3:cpu:/g\n"), UINT64_MAX);
}

TEST_WITH(test_without_groups, set_up, tear_down)
{
	assert_int_equal(room_of(""), UINT64_MAX);
	assert_int_equal(room_of("nonsense\n:\n1:memory\n"), UINT64_MAX);
	assert_int_equal(xp_memory_room_in("/nowhere", root), UINT64_MAX);
}
