/* SPDX-License-Identifier: BSD-2-Clause */
/* Which parts of a recording are deleted, and which files they share. */
#include "unit.h"

#include "base/file_name.h"
#include "base/util.h"
#include "base/why.h"
#include "record/outdir.h"
#include "record/parts.h"
#include "store/sym_binaries.h"
#include "store/sym_shared.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* 2026-11-27T23:15:00Z */
#define START_S 1795821300ull

static char place[PATH_MAX];
static int parts_fd;

static int set_up(void **state)
{
	(void)state;
	strcpy(place, "/tmp/xprof-parts-XXXXXX");
	parts_fd = mkdtemp(place) ? open(place, O_RDONLY | O_DIRECTORY) : -1;
	return parts_fd < 0 || chdir(place);
}

static int tear_down(void **state)
{
	char command[PATH_MAX + 16];

	(void)state;
	close(parts_fd);
	snprintf(command, sizeof(command), "rm -rf %s", place);
	return chdir("/") || system(command);
}

static void put(const char *path, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	char *text = calloc(1, bytes);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, bytes), bytes);
	close(fd);
	free(text);
}

/* Makes parts of one minute and 1 MB each. */
static void put_parts(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		char path[64];

		snprintf(path, sizeof(path), "20261127T23%02u00Z", 15 + i);
		assert_int_equal(mkdir(path, 0700), 0);
		snprintf(path, sizeof(path), "20261127T23%02u00Z/manifest.json", 15 + i);
		put(path, 1 << 20);
	}
}

static bool exists(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

TEST(names)
{
	static const char *const others[] = {
		"",    "20261127T231500", "20261127T231500Z-1",	   "20261127T231500Z.old", "20261327T231500Z",
		"sym", "2026112T231500Z", "20261127T231500Z-0001", " 0261127T231500Z"
	};
	uint64_t start_s;

	assert_true(xp_file_is_part("20261127T231500Z", &start_s));
	assert_int_equal(start_s, START_S);
	assert_true(xp_file_is_part("20261127T231501Z-001", &start_s));
	assert_int_equal(start_s, START_S + 1);
	for (size_t i = 0; i < XP_ARRAY_SIZE(others); i++)
		assert_false(xp_file_is_part(others[i], &start_s));
}

/* The names are in the order of time, also if the clock was set back. */
TEST_WITH(order, set_up, tear_down)
{
	static const char *const names[][2] = {
		{ "20261127T231500Z", "20261127T231500Z" },	{ "20261127T231500Z", "20261127T231500Z-001" },
		{ "20261127T221500Z", "20261127T231500Z-002" }, { "20261126T000000Z", "20261127T231500Z-003" },
		{ "20261127T231501Z", "20261127T231501Z" },
	};
	const struct xp_outdir parts = { .fd = parts_fd, .path = "." };
	const char *before = "";

	for (size_t i = 0; i < XP_ARRAY_SIZE(names); i++) {
		struct xp_outdir part;

		assert_int_equal(xp_outdir_open_part(&part, &parts, names[i][0], before), 0);
		assert_string_equal(part.name, names[i][1]);
		before = names[i][1];
		xp_outdir_leave(&part);
	}
}

/* A part is kept until all of its time is older than the limit. */
TEST_WITH(keep_time, set_up, tear_down)
{
	const struct xp_parts_limits limits = { .now_ns = (START_S + 600) * XP_NS_PER_S, .keep_ns = 500 * XP_NS_PER_S };

	put_parts(9);
	assert_int_equal(xp_parts_clean(parts_fd, &limits), 1);
	assert_false(exists("20261127T231500Z"));
	assert_true(exists("20261127T231600Z"));
	assert_int_equal(xp_parts_clean(parts_fd, &limits), 0);
}

TEST_WITH(keep_bytes, set_up, tear_down)
{
	const struct xp_parts_limits limits = { .max_bytes = 5 << 20 }, little = { .max_bytes = 1 };

	put_parts(7);
	assert_int_equal(xp_parts_clean(parts_fd, &limits), 2);
	assert_false(exists("20261127T231600Z"));
	assert_true(exists("20261127T231700Z"));
	/* The newest parts are never deleted. */
	assert_int_equal(xp_parts_clean(parts_fd, &little), 2);
	assert_true(exists("20261127T231900Z") && exists("20261127T232100Z"));
}

/* Other files, and the targets of links, are not deleted. */
TEST_WITH(only_parts, set_up, tear_down)
{
	const struct xp_parts_limits limits = { .max_bytes = 1 };
	int fd;

	put_parts(8);
	fd = open("20261127T231500Z", O_RDONLY);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	put("20261127T231600Z/mine", 1);
	assert_int_equal(rename("20261127T231700Z", "elsewhere"), 0);
	assert_int_equal(symlink("elsewhere", "20261127T231700Z"), 0);
	put("other", 1);
	assert_int_equal(xp_parts_clean(parts_fd, &limits), 2);
	assert_true(exists("20261127T231500Z/manifest.json") && exists("20261127T231600Z/mine"));
	assert_true(exists("elsewhere/manifest.json") && exists("other"));
	assert_false(exists("20261127T231800Z"));
	close(fd);
}

/* A part links to a copy that another part made. A copy without links is deleted. */
TEST_WITH(shared_names, set_up, tear_down)
{
	const struct xp_sym_identity identity = { .dev = 1, .inode = 2, .size = 3, .modified = { 4, 5 } },
				     other = { .dev = 1, .inode = 2, .size = 3, .modified = { 4, 6 } };
	const struct xp_sym_shared copy = {
		.key = "00ff12",
		.copied = { .has_code = true, .lacks_debug = true, .exec_vaddr = 0x401000, .exec_offset = 0x1000 },
	};
	struct xp_sym_shared found;
	struct stat st;
	int fd = xp_sym_shared_open(parts_fd);

	assert_true(fd >= 0);
	put("copy", 1);
	put("sym/nonsense,", 1);
	assert_false(xp_sym_shared_find(fd, &identity, &found));
	setenv("SUDO_UID", "1234", 1);
	setenv("SUDO_GID", "1234", 1);
	xp_sym_shared_add(fd, &identity, &copy, parts_fd, "copy");
	unsetenv("SUDO_UID");
	assert_int_equal(stat("copy", &st), 0);
	assert_int_equal(st.st_uid, geteuid() ? geteuid() : 1234);
	assert_false(xp_sym_shared_find(fd, &other, &found));
	assert_true(xp_sym_shared_find(fd, &identity, &found));
	assert_string_equal(found.key, "00ff12");
	assert_int_equal(found.copied.build_id_bytes, 3);
	assert_memory_equal(found.copied.build_id, "\0\377\022", 3);
	assert_true(found.copied.has_code && found.copied.lacks_debug);
	assert_true(found.copied.exec_vaddr == 0x401000 && found.copied.exec_offset == 0x1000);
	xp_sym_shared_clean(fd);
	assert_true(xp_sym_shared_find(fd, &identity, &found));
	assert_int_equal(unlink("copy"), 0);
	xp_sym_shared_clean(fd);
	assert_false(xp_sym_shared_find(fd, &identity, &found));
	close(fd);
}
