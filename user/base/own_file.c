// SPDX-License-Identifier: BSD-2-Clause
#include "base/own_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE 0600
#define DIR_MODE 0700

/*
 * The mode given at creation keeps others out from the start. This call restores owner bits that the umask removed. On
 * a file system without modes (vfat, FUSE) fchmod() fails, and its mount options set the modes.
 */
static int set_mode(int fd, mode_t mode)
{
	struct stat st;
	int err;

	if (!fstat(fd, &st) && (st.st_mode & (mode | S_IRWXG | S_IRWXO)) == mode)
		return fd;
	if (!fchmod(fd, mode))
		return fd;
	err = errno == EPERM ? -EOPNOTSUPP : -errno;
	close(fd);
	return err;
}

int xp_own_file_create(int dir_fd, const char *name, int access)
{
	int fd = openat(dir_fd, name, access | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);

	return fd < 0 ? -errno : set_mode(fd, FILE_MODE);
}

int xp_log_file_make(int dir_fd, const char *name, int (*write)(void *arg, int fd), void *arg)
{
	char temporary[XP_LOG_NAME_MAX + sizeof(XP_LOG_PART)];
	int err, fd;

	if ((size_t)snprintf(temporary, sizeof(temporary), "%s" XP_LOG_PART, name) >= sizeof(temporary))
		return -ENAMETOOLONG;
	if (unlinkat(dir_fd, temporary, 0) && errno != ENOENT) /* left by a crash */
		return -errno;
	fd = xp_own_file_create(dir_fd, temporary, O_RDWR);
	if (fd < 0)
		return fd;
	err = write(arg, fd);
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(dir_fd, temporary, dir_fd, name))
		err = -errno;
	if (err)
		unlinkat(dir_fd, temporary, 0);
	return err;
}

int xp_own_dir_create(int dir_fd, const char *name)
{
	struct stat st;
	int fd, err;

	if (mkdirat(dir_fd, name, DIR_MODE))
		return -errno;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		err = -errno;
		unlinkat(dir_fd, name, AT_REMOVEDIR);
		return err;
	}
	/* A user with write access to the parent directory may have replaced the directory meanwhile. */
	if (fstat(fd, &st) || st.st_uid != geteuid()) {
		close(fd);
		fd = -EEXIST;
	} else {
		fd = set_mode(fd, DIR_MODE);
	}
	if (fd < 0)
		unlinkat(dir_fd, name, AT_REMOVEDIR);
	return fd;
}

int xp_dir_each(int dir_fd, int (*visit)(int dir_fd, const char *name, void *arg), void *arg)
{
	/* This needs a separate descriptor: fdopendir() takes ownership, and moves the position in the directory. */
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int ret = dir ? 0 : -errno;
	struct dirent *entry;

	if (!dir && fd >= 0)
		close(fd);
	if (!dir)
		return ret;
	for (errno = 0; !ret && (entry = readdir(dir)); errno = 0)
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			ret = visit(dir_fd, entry->d_name, arg);
	ret = ret ? ret : -errno;
	closedir(dir);
	return ret;
}

static bool parse_id(const char *text, unsigned int *id)
{
	unsigned long value;
	char *end;

	if (!text || text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	value = strtoul(text, &end, 10);
	/* (uid_t)-1 means "no change" to chown. */
	if (errno || *end || value >= (unsigned int)-1)
		return false;
	*id = value;
	return true;
}

bool xp_own_file_user(uid_t *uid, gid_t *gid)
{
	/* The user who runs a set-user-ID program controls its environment. */
	return !getuid() && !geteuid() && parse_id(getenv("SUDO_UID"), uid) && parse_id(getenv("SUDO_GID"), gid);
}
