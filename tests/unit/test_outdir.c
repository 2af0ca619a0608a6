/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include "base/own_file.h"
#include "base/util.h"
#include "base/why.h"
#include "record/outdir.h"
#include "record/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each test runs in a new, empty current directory. */
static char place[] = "/tmp/xprof-outdir-XXXXXX";

static int set_up(void **state)
{
	(void)state;
	strcpy(place, "/tmp/xprof-outdir-XXXXXX");
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
	return !mkdtemp(place) || chdir(place);
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "chmod -R u+w %s; rm -rf %s", place, place);
	return chdir("/") || system(command);
}

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static bool exists(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

/* Checks that the file has this content. */
static void assert_text(const char *path, const char *text)
{
	char buf[64] = "";
	int fd = open(path, O_RDONLY);

	assert_true(fd >= 0);
	assert_true(read(fd, buf, sizeof(buf) - 1) >= 0);
	close(fd);
	assert_string_equal(buf, text);
}

static void create(const struct xp_outdir *dir, const char *name)
{
	int fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static void assert_refused(const char *path, int err, const char *reason)
{
	struct xp_outdir dir;

	assert_int_equal(xp_outdir_open(&dir, path), err);
	if (!strstr(xp_why(err), reason))
		fail_msg("\"%s\" does not say \"%s\"", xp_why(err), reason);
	assert_int_equal(dir.fd, -1);
}

static void record(const char *path, const char *manifest)
{
	struct xp_outdir dir;
	int fd;

	assert_int_equal(xp_outdir_open(&dir, path), 0);
	fd = openat(dir.fd, "manifest.json", O_WRONLY | O_CREAT | O_EXCL, 0644);
	assert_int_equal(xp_write_all(fd, manifest, strlen(manifest)), 0);
	close(fd);
	assert_int_equal(xp_outdir_close(&dir, true), 0);
}

TEST_WITH(recordings_follow_each_other, set_up, tear_down)
{
	struct stat st;

	umask(022);
	record("out", "1");
	assert_int_equal(stat("out", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_false(exists("out.old"));
	record("out/", "2");
	record("./out", "3");
	assert_text("out/manifest.json", "3");
	assert_text("out.old/manifest.json", "2");
}

TEST_WITH(absolute_and_nested_paths, set_up, tear_down)
{
	char path[128];

	assert_int_equal(mkdir("a", 0755), 0);
	record("a/out//", "1");
	assert_text("a/out/manifest.json", "1");
	snprintf(path, sizeof(path), "%s/b", place);
	record(path, "2");
	assert_text("b/manifest.json", "2");
}

TEST_WITH(cut_off_recordings_count, set_up, tear_down)
{
	mkdir("out", 0755);
	put("out/a.1.fdr.spool", "s");
	record("out", "1");
	assert_text("out.old/a.1.fdr.spool", "s");
	record("out", "2");
	assert_false(exists("out.old/a.1.fdr.spool"));
	assert_text("out.old/manifest.json", "1");
}

TEST_WITH(foreign_things_stay, set_up, tear_down)
{
	mkdir("out", 0755);
	put("out/notes.txt", "n");
	assert_refused("out", -EEXIST, "is not an xprof recording");
	assert_text("out/notes.txt", "n");

	put("file", "f");
	assert_refused("file", -EEXIST, "is a file, not a directory");
	assert_text("file", "f");

	assert_int_equal(symlink("out", "link"), 0);
	assert_refused("link", -EEXIST, "is a symbolic link");

	/* A link with that name does not make the directory a recording. */
	assert_int_equal(symlink("/etc/passwd", "out/manifest.json"), 0);
	assert_refused("out", -EEXIST, "is not an xprof recording");
}

TEST_WITH(foreign_things_in_old_stay, set_up, tear_down)
{
	record("out", "1");
	record("out", "2");
	put("out.old/notes.txt", "n");
	assert_refused("out", -EEXIST,
		       "out.old would be removed but contains something that is not xprof's (notes.txt)");
	assert_text("out.old/notes.txt", "n");
	assert_text("out.old/manifest.json", "1");
	assert_text("out/manifest.json", "2");

	unlink("out.old/notes.txt");
	put("out.old/perf.data", "p");
	put("out.old/jit-1.dump", "j");
	record("out", "3");
	assert_text("out.old/manifest.json", "2");
	record("out", "1");
	record("out", "2");
	mkdir("out.old/a.fdr", 0755);
	assert_refused("out", -EEXIST, "(a.fdr)");
	rmdir("out.old/a.fdr");
	rename("out.old/manifest.json", "out.old/a.fdr");
	assert_refused("out", -EEXIST, "is not a recording");
	assert_text("out.old/a.fdr", "1");

	assert_int_equal(system("rm -r out.old; echo x > out.old"), 0);
	assert_refused("out", -EEXIST, "out.old is a file");
	assert_text("out/manifest.json", "2");
}

TEST_WITH(empty_directory_is_replaced, set_up, tear_down)
{
	mkdir("out", 0700);
	record("out", "1");
	assert_false(exists("out.old"));
	mkdir("out.old", 0700);
	record("out", "2");
	assert_text("out.old/manifest.json", "1");
}

TEST_WITH(failed_recording_leaves_nothing, set_up, tear_down)
{
	struct xp_outdir dir;

	assert_int_equal(xp_outdir_open(&dir, "out"), 0);
	create(&dir, "a.1.fdr.spool");
	assert_int_equal(xp_outdir_close(&dir, false), 1);
	assert_false(exists("out"));
	assert_int_equal(dir.fd, -1);
	assert_int_equal(xp_outdir_close(&dir, false), 0);

	/* Neither does an empty file. */
	assert_int_equal(xp_outdir_open(&dir, "out"), 0);
	assert_int_equal(xp_outdir_close(&dir, true), 1);
	assert_false(exists("out"));
}

TEST_WITH(failed_recording_puts_the_older_back, set_up, tear_down)
{
	struct xp_outdir dir;

	record("out", "1");
	assert_int_equal(xp_outdir_open(&dir, "out"), 0);
	assert_text("out.old/manifest.json", "1");
	assert_int_equal(xp_outdir_close(&dir, false), 1);
	assert_text("out/manifest.json", "1");
	assert_false(exists("out.old"));
}

/*
 * Names may change at any time: files are written to the directory of the descriptor, and no foreign file is removed.
 */
TEST_WITH(swapped_directory, set_up, tear_down)
{
	struct xp_outdir dir;

	assert_int_equal(xp_outdir_open(&dir, "out"), 0);
	assert_int_equal(rename("out", "away"), 0);
	mkdir("out", 0755);
	put("out/manifest.json", "theirs");
	create(&dir, "a.fdr");
	assert_true(exists("away/a.fdr"));
	assert_int_not_equal(xp_outdir_close(&dir, false), 0);
	assert_text("out/manifest.json", "theirs");
}

TEST_WITH(bad_names, set_up, tear_down)
{
	char text[PATH_MAX + 2];

	assert_refused("", -EINVAL, "empty");
	assert_refused(".", -EINVAL, "is not a name for a new directory");
	assert_refused("a/..", -EINVAL, "is not a name for a new directory");
	assert_refused("/", -EINVAL, "is not a name for a new directory");
	assert_refused("a/out", -ENOENT, "a does not exist");
	put("file", "f");
	assert_refused("file/out", -ENOTDIR, "file: cannot create a directory there: Not a directory");
	memset(text, 'x', sizeof(text));
	text[NAME_MAX + 1] = 0;
	assert_refused(text, -ENAMETOOLONG, "too long");
	text[NAME_MAX] = 0;
	record(text, "1");
	assert_refused(text, -ENAMETOOLONG, "too long to rename the older recording");
	text[NAME_MAX] = 'x';
	text[sizeof(text) - 1] = 0;
	assert_refused(text, -ENAMETOOLONG, "too long");
	/* /proc returns ENOENT for any mkdir. */
	assert_refused("/proc/out", -ENOENT, "cannot create the output directory");
}

/* Root may use such a directory for itself, but not on behalf of others. */
TEST_WITH(another_users_recording, set_up, tear_down)
{
	if (geteuid()) {
		print_message("skipped: only root can give files away\n");
		skip();
	}
	assert_int_equal(chmod(place, 01777), 0);
	record("out", "1");
	assert_int_equal(chown("out", 12345, 12345), 0);
	assert_refused("out", -EEXIST, "out belongs to another user: choose another directory with -o");
	assert_text("out/manifest.json", "1");
	assert_int_equal(rename("out", "out.old"), 0);
	record("out", "2");
	assert_refused("out", -EEXIST, "out.old belongs to another user");
	assert_text("out.old/manifest.json", "1");
	assert_text("out/manifest.json", "2");
	assert_int_equal(system("rm -r out out.old; mkdir out"), 0);
	assert_int_equal(chown("out", 12345, 12345), 0);
	assert_refused("out", -EEXIST, "belongs to another user");

	/* The user behind sudo may, and so may a user who has all rights in the directory. */
	setenv("SUDO_UID", "12345", 1);
	setenv("SUDO_GID", "12345", 1);
	record("out", "1");
	record("out", "2");
	assert_text("out.old/manifest.json", "1");
	unsetenv("SUDO_UID");
	assert_int_equal(chown(place, 12345, 12345), 0);
	record("out", "3");
	assert_text("out.old/manifest.json", "2");
}

TEST_WITH(not_writable, set_up, tear_down)
{
	if (!geteuid()) {
		/* Root can write everywhere, so this runs as nobody. */
		assert_int_equal(chmod(place, 0755), 0);
		assert_int_equal(seteuid(65534), 0);
		assert_refused("out", -EACCES, "you may not write there");
		assert_int_equal(seteuid(0), 0);
		return;
	}
	chmod(place, 0555);
	assert_refused("out", -EACCES, "you may not write there");
}

TEST_WITH(goes_to_the_user_behind_sudo, set_up, tear_down)
{
	struct xp_outdir dir;
	struct stat st;
	uid_t uid;
	gid_t gid;

	if (geteuid()) {
		print_message("skipped: only root can give files away\n");
		skip();
	}
	assert_false(xp_own_file_user(&uid, &gid));
	setenv("SUDO_UID", "12345", 1);
	assert_false(xp_own_file_user(&uid, &gid));
	setenv("SUDO_GID", "54321", 1);
	assert_int_equal(xp_outdir_open(&dir, "out"), 0);
	create(&dir, "manifest.json");
	create(&dir, "a.fdr");
	put("outside", "o");
	assert_int_equal(linkat(AT_FDCWD, "outside", dir.fd, "b.fdr", 0), 0);
	assert_int_equal(mkdirat(dir.fd, "sym", 0700), 0);
	put("out/sym/a.so", "s");
	assert_int_equal(symlinkat("../../outside", dir.fd, "sym/b.so"), 0);
	assert_int_equal(fstat(dir.fd, &st), 0);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(xp_outdir_close(&dir, true), 0);
	for (int i = 0; i < 6; i++) {
		static const char *const names[] = { "out",	"out/manifest.json", "out/a.fdr",
						     "out/sym", "out/sym/a.so",	     "out/sym/b.so" };

		assert_int_equal(lstat(names[i], &st), 0);
		assert_int_equal(st.st_uid, 12345);
		assert_int_equal(st.st_gid, 54321);
	}
	assert_int_equal(lstat("outside", &st), 0);
	assert_int_equal(st.st_uid, 0);

	for (size_t i = 0; i < 6; i++) {
		setenv("SUDO_UID", (const char *[]){ "", "-1", "4294967295", "12x", " 1", "99999999999999999999" }[i],
		       1);
		assert_false(xp_own_file_user(&uid, &gid));
	}

	/* Does not apply to a user who runs a set-user-ID program of root. */
	setenv("SUDO_UID", "12345", 1);
	assert_true(xp_own_file_user(&uid, &gid));
	assert_int_equal(setresuid(65534, 0, 0), 0);
	assert_false(xp_own_file_user(&uid, &gid));
	assert_int_equal(setresuid(0, 0, 0), 0);
}

/* A directory with other files, or with another owner, keeps its owner. */
TEST_WITH(only_recordings_are_given, set_up, tear_down)
{
	struct stat st;
	int fd;

	if (geteuid())
		skip();
	setenv("SUDO_UID", "12345", 1);
	setenv("SUDO_GID", "54321", 1);
	mkdir("out", 0700);
	fd = open("out", O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < 3; i++) {
		if (i == 1)
			put("out/notes.txt", "n");
		if (i == 2) {
			assert_int_equal(rename("out/notes.txt", "out/a.fdr"), 0);
			assert_int_equal(fchown(fd, 1234, 1234), 0);
		}
		assert_int_equal(xp_outdir_give(fd, "out"), 0);
		assert_int_equal(stat("out", &st), 0);
		assert_int_equal(st.st_uid, i == 2 ? 1234 : 0);
	}
	assert_int_equal(stat("out/a.fdr", &st), 0);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(fchown(fd, 0, 0), 0);
	assert_int_equal(xp_outdir_give(fd, "out"), 0);
	assert_int_equal(stat("out/a.fdr", &st), 0);
	assert_int_equal(st.st_uid, 12345);
	close(fd);
}

TEST(progress_line)
{
	char text[128];

	xp_progress_text(text, sizeof(text), 12340000000, 999, 1000000000, 0);
	assert_string_equal(text, "12.3 s  999 events/s  0 lost");
	xp_progress_text(text, sizeof(text), 0, 5000, 500000000, 7);
	assert_string_equal(text, "0.0 s  10.0 k events/s  7 lost");
	xp_progress_text(text, sizeof(text), 1000000000, 2345678, 1000000000, UINT64_MAX);
	assert_string_equal(text, "1.0 s  2.3 M events/s  18446744073709551615 lost");
	xp_progress_text(text, sizeof(text), 0, 5, 0, 0);
	assert_string_equal(text, "0.0 s  0 events/s  0 lost");
}
