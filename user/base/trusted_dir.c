// SPDX-License-Identifier: BSD-2-Clause
#include "base/trusted_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own_file.h"

#define LINKS_MAX 40 /* the kernel's limit */
#define DIR_FLAGS (O_DIRECTORY | O_CLOEXEC)

static bool is_own(const struct stat *link)
{
	uid_t uid;
	gid_t gid;

	return link->st_uid == geteuid() || (xp_own_file_user(&uid, &gid) && link->st_uid == uid);
}

static bool is_trusted(const struct stat *dir, const struct stat *link, bool only_own)
{
	if (is_own(link))
		return true;
	return !only_own && (!(dir->st_mode & S_ISVTX) || !(dir->st_mode & S_IWOTH) || link->st_uid == dir->st_uid);
}

/* Moves the first component of the path to name. Returns false if there is none. */
static bool take_name(char *path, char name[PATH_MAX])
{
	size_t skipped = strspn(path, "/"), length = strcspn(path + skipped, "/");

	snprintf(name, PATH_MAX, "%.*s", (int)length, path + skipped);
	memmove(path, path + skipped + length, strlen(path + skipped + length) + 1);
	return length;
}

/* Puts the target of the link before the rest of the path. */
static int follow(int link_fd, char path[PATH_MAX])
{
	char target[PATH_MAX], rest[PATH_MAX];
	ssize_t length = readlinkat(link_fd, "", target, sizeof(target) - 1);

	if (length < 0)
		return -errno;
	target[length] = 0;
	strcpy(rest, path);
	return snprintf(path, PATH_MAX, "%s/%s", target, rest) >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/*
 * Moves *dir_fd to an entry of the directory. If the entry is a link, prepends its target to path instead and returns
 * 1.
 */
static int step(int *dir_fd, const char *name, char path[PATH_MAX], bool only_own)
{
	int fd = openat(*dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), err = 0;
	struct stat dir, entry;

	if (fd < 0)
		return -errno;
	if (fstat(*dir_fd, &dir) || fstat(fd, &entry))
		err = -errno;
	else if (!S_ISLNK(entry.st_mode)) {
		close(*dir_fd);
		*dir_fd = fd;
		return 0;
	}
	if (!err)
		err = is_trusted(&dir, &entry, only_own) ? follow(fd, path) : -EREMCHG;
	close(fd);
	return err ? err : 1;
}

static int open_start(const char *path)
{
	int fd;

	if (!*path)
		return -ENOENT;
	fd = open(path[0] == '/' ? "/" : ".", O_PATH | DIR_FLAGS);
	return fd < 0 ? -errno : fd;
}

static int open_dir(const char *path, bool only_own)
{
	char rest[PATH_MAX], name[PATH_MAX];
	int dir_fd = open_start(path), links = 0, fd, ret = 0;

	if (dir_fd < 0)
		return dir_fd;
	if (snprintf(rest, sizeof(rest), "%s", path) >= (int)sizeof(rest))
		ret = -ENAMETOOLONG;
	while (ret >= 0 && take_name(rest, name)) {
		ret = step(&dir_fd, name, rest, only_own);
		if (ret == 1 && ++links > LINKS_MAX)
			ret = -ELOOP;
		if (ret == 1 && rest[0] == '/') {
			close(dir_fd);
			dir_fd = ret = open_start("/");
		}
	}
	if (ret >= 0) {
		fd = openat(dir_fd, ".", O_RDONLY | DIR_FLAGS);
		ret = fd < 0 ? -errno : fd;
	}
	if (dir_fd >= 0)
		close(dir_fd);
	return ret;
}

int xp_trusted_dir_open(const char *path)
{
	return open_dir(path, false);
}

int xp_own_links_dir_open(const char *path)
{
	return open_dir(path, geteuid() == 0);
}
