// SPDX-License-Identifier: BSD-2-Clause
/* Finds the cgroup of a process in the text of /proc/PID/cgroup, in the form of cgroups(7). */
#include "target/cgroup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

#include "base/cgroup_line.h"
#include "sample/cgroups.h"

static void check(const char *text, const char *expected)
{
	char *copy = strdup(text), path[XP_CGROUP_BYTES];

	assert_non_null(copy);
	assert_int_equal(xp_cgroup_parse(copy, path), expected ? 0 : -EINVAL);
	assert_string_equal(path, expected ? expected : "");
	free(copy);
}

TEST(test_version_2)
{
	check("0::/system.slice/docker-0123.scope\n", "/system.slice/docker-0123.scope");
	check("0::/\n", "/");
	check("0::/a:b/c", "/a:b/c");
}

TEST(test_version_1)
{
	check("9:name=systemd:/user.slice/session-3.scope\n4:memory:/user.slice\n0::/\n",
	      "/user.slice/session-3.scope");
	check("12:cpu,cpuacct:/docker/0123\n1:name=systemd:/\n", "/docker/0123");
	check("4:memory:/long/path/of/one\n0::/short\n3:cpu:/another/long/path/of/one\n", "/short");
	/* Only version 2 has an empty list of controllers. */
	check("4:memory:/long/path\n0:name=x:/short\n", "/long/path");
}

TEST(test_line)
{
	struct xp_cgroup_line line;
	char own[] = "0::/a:b\n", freezer[] = "7:cpu,freezer:/a", other[] = "7::/a";

	assert_true(xp_cgroup_line_parse(&line, own));
	assert_string_equal(line.controllers, "");
	assert_string_equal(line.path, "/a:b");
	assert_true(xp_cgroup_line_parse(&line, freezer));
	assert_true(xp_cgroup_list_has(line.controllers, "freezer"));
	assert_true(xp_cgroup_list_has(line.controllers, "cpu"));
	assert_false(xp_cgroup_list_has(line.controllers, "cpuacct"));
	assert_false(xp_cgroup_list_has(line.controllers, "freeze"));
	assert_false(xp_cgroup_line_parse(&line, other));
}

TEST(test_bad_texts)
{
	char text[2 * XP_CGROUP_BYTES];

	check("", NULL);
	check("\n\n:\n0:\n0::\n0::relative\n", NULL);
	memset(text, 'x', sizeof(text));
	memcpy(text, "0::/", 4);
	text[3 + XP_CGROUP_BYTES] = 0;
	check(text, NULL);
	text[2 + XP_CGROUP_BYTES] = 0;
	check(text, text + 3);
}

TEST(test_each_path_is_kept_once)
{
	struct xp_text_pool cgroups = { 0 };
	const char *own = xp_cgroups_of(&cgroups, getpid()), *root;

	assert_non_null(own);
	assert_ptr_equal(xp_cgroups_of(&cgroups, getpid()), own);
	root = xp_cgroups_of(&cgroups, 0);
	assert_string_equal(root, "/");
	assert_int_equal(cgroups.count, strcmp(own, root) ? 2 : 1);
	assert_null(xp_cgroups_of(&cgroups, INT32_MAX));
	xp_text_pool_free(&cgroups);
}
