/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own_file.h"
#include "base/trusted_dir.h"

static char place[] = "/tmp/xprof-own-XXXXXX";

static int set_up(void **state)
{
	(void)state;
	strcpy(place, "/tmp/xprof-own-XXXXXX");
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
	umask(022);
	return !mkdtemp(place) || chdir(place);
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	umask(022);
	snprintf(command, sizeof(command), "rm -rf %s", place);
	return chdir("/") || system(command);
}

static void assert_mode(const char *path, mode_t mode)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode, mode);
}

TEST_WITH(nobody_else_can_read, set_up, tear_down)
{
	static const mode_t masks[] = { 0, 022, 0077, 0777 };

	for (size_t i = 0; i < 4; i++) {
		int fd, dir;

		umask(masks[i]);
		dir = xp_own_dir_create(AT_FDCWD, "dir");
		fd = xp_own_file_create(dir, "file", O_RDWR);
		assert_true(dir >= 0 && fd >= 0);
		assert_mode("dir", S_IFDIR | 0700);
		assert_mode("dir/file", S_IFREG | 0600);
		assert_int_equal(write(fd, "x", 1), 1);
		assert_int_equal(unlinkat(dir, "file", 0), 0);
		assert_int_equal(rmdir("dir"), 0);
		close(fd);
		close(dir);
	}
}

/* Simulates vfat: fchmod() fails in this thread from now on. */
static void forbid_fchmod(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fchmod, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = filter };

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), 0);
}

static int use_without_modes(void)
{
	int dir;

	forbid_fchmod();
	umask(0777);
	if (xp_own_dir_create(AT_FDCWD, "dir") != -EOPNOTSUPP || !access("dir", F_OK))
		return 1;
	umask(077);
	dir = xp_own_dir_create(AT_FDCWD, "dir");
	if (dir < 0 || xp_own_file_create(dir, "file", O_RDWR) < 0)
		return 2;
	umask(0277);
	return xp_own_file_create(dir, "other", O_RDWR) == -EOPNOTSUPP ? 0 : 3;
}

/* Modes that exclude other users are sufficient. */
TEST_WITH(file_system_without_modes, set_up, tear_down)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(use_without_modes());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Simulates FUSE with another owner: files that the thread creates belong to its fsuid. */
TEST_WITH(file_system_that_chooses_owners, set_up, tear_down)
{
	if (geteuid()) {
		print_message("skipped: only root can create files of others\n");
		skip();
	}
	assert_int_equal(chmod(".", 0777), 0);
	setfsuid(12345);
	assert_int_equal(xp_own_dir_create(AT_FDCWD, "dir"), -EEXIST);
	setfsuid(0);
	assert_int_equal(access("dir", F_OK), -1);
}

TEST_WITH(nothing_there_is_used, set_up, tear_down)
{
	assert_int_equal(symlink("elsewhere", "link"), 0);
	assert_int_equal(mkdir("dir", 0777), 0);
	assert_int_equal(close(open("file", O_CREAT | O_WRONLY, 0666)), 0);
	for (int i = 0; i < 3; i++) {
		const char *name = (const char *[]){ "link", "dir", "file" }[i];

		assert_int_equal(xp_own_file_create(AT_FDCWD, name, O_WRONLY), -EEXIST);
		assert_int_equal(xp_own_dir_create(AT_FDCWD, name), -EEXIST);
	}
	assert_int_equal(access("elsewhere", F_OK), -1);
	assert_mode("dir", S_IFDIR | 0755);
	assert_int_equal(xp_own_file_create(AT_FDCWD, "none/file", O_WRONLY), -ENOENT);
}

/* Returns whether the path leads to the directory "there". */
static void assert_opens(const char *path)
{
	int fd = xp_trusted_dir_open(path);
	struct stat st, there;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(stat("there", &there), 0);
	assert_int_equal(st.st_ino, there.st_ino);
	close(fd);
}

TEST_WITH(ways_to_a_directory, set_up, tear_down)
{
	char path[128], longer[NAME_MAX + 8];

	assert_int_equal(mkdir("there", 0755) | mkdir("a", 0755) | mkdir("a/b", 0755), 0);
	snprintf(path, sizeof(path), "%s/there", place);
	assert_int_equal(symlink(path, "a/absolute") | symlink("../../there", "a/b/relative") |
			     symlink("b/relative", "a/twice") | symlink("loop", "loop"),
			 0);
	assert_opens(path);
	assert_opens("there");
	assert_opens("./there/.");
	assert_opens("a//b/../../there/");
	assert_opens("a/absolute");
	assert_opens("a/absolute/../there");
	assert_opens("a/twice/");
	assert_int_equal(xp_trusted_dir_open("loop"), -ELOOP);
	assert_int_equal(xp_trusted_dir_open("a/none"), -ENOENT);
	assert_int_equal(close(open("file", O_CREAT | O_WRONLY, 0666)), 0);
	assert_int_equal(xp_trusted_dir_open("file"), -ENOTDIR);
	assert_int_equal(xp_trusted_dir_open("file/.."), -ENOTDIR);
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = 0;
	assert_int_equal(xp_trusted_dir_open(longer), -ENAMETOOLONG);
}

TEST_WITH(others_links, set_up, tear_down)
{
	if (geteuid()) {
		print_message("skipped: only root can give links away\n");
		skip();
	}
	assert_int_equal(mkdir("there", 0755) | mkdir("tmp", 0755) | chmod("tmp", 01777), 0);
	assert_int_equal(symlink("../there", "tmp/link"), 0);
	assert_opens("tmp/link");
	assert_int_equal(lchown("tmp/link", 1234, 1234), 0);
	assert_int_equal(xp_trusted_dir_open("tmp/link"), -EREMCHG);
	assert_int_equal(xp_trusted_dir_open("tmp/link/."), -EREMCHG);
	/* A link of the user, or of a user who has all rights in the directory. */
	setenv("SUDO_UID", "1234", 1);
	setenv("SUDO_GID", "1234", 1);
	assert_opens("tmp/link");
	unsetenv("SUDO_UID");
	assert_int_equal(chown("tmp", 1234, 1234), 0);
	assert_opens("tmp/link");
	assert_int_equal(chown("tmp", 0, 0) | chmod("tmp", 0755), 0);
	assert_opens("tmp/link");
}
