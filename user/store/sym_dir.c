/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/sym_dir.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/own_file.h"
#include "base/util.h"
#include "format/gperf.h"

#define DELETED " (deleted)"

void xp_sym_dir_init(struct xp_sym_dir *dir, int parent_fd)
{
	uint32_t token;

	if (getrandom(&token, sizeof(token), GRND_NONBLOCK) != sizeof(token))
		token = time(NULL) ^ getpid() << 16;
	dir->parent_fd = parent_fd;
	dir->fd = dir->shared_fd = -1;
	snprintf(dir->token, sizeof(dir->token), "%06x", token & 0xffffff);
}

void xp_sym_dir_close(struct xp_sym_dir *dir)
{
	if (dir->fd >= 0)
		close(dir->fd);
	dir->fd = -1;
}

/* Opens an existing directory, unless another user owns it. */
static int open_existing(const struct xp_sym_dir *dir)
{
	int fd = openat(dir->parent_fd, XP_SYM_DIR_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || (!fstat(fd, &st) && st.st_uid == geteuid()))
		return fd < 0 ? -errno : fd;
	close(fd);
	return -EEXIST;
}

int xp_sym_dir_open(struct xp_sym_dir *dir)
{
	if (dir->fd >= 0)
		return 0;
	dir->fd = xp_own_dir_create(dir->parent_fd, XP_SYM_DIR_NAME);
	if (dir->fd == -EEXIST)
		dir->fd = open_existing(dir);
	return XP_MIN(dir->fd, 0);
}

/* Returns whether the label is reserved for code without a file. */
static bool is_reserved(const char *label)
{
	return !strcmp(label, "jit") || !strcmp(label, "kernel") || !strcmp(label, "vdso") || !strcmp(label, "anon") ||
	       !strcmp(label, "unknown");
}

void xp_sym_dir_label(char label[XP_SYM_LABEL_BYTES], const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t length = strlen(name);

	if (length > strlen(DELETED) && !strcmp(name + length - strlen(DELETED), DELETED))
		length -= strlen(DELETED);
	snprintf(label, XP_SYM_LABEL_BYTES, "%.*s", (int)(length < INT_MAX ? length : INT_MAX), name);
	for (char *at = label; *at; at++)
		if (!isalnum((unsigned char)*at) && !strchr("+-_.", *at))
			*at = '_';
	if (!label[0])
		strcpy(label, "_");
	if (label[0] == '.' || label[0] == '-')
		label[0] = '_';
	if (is_reserved(label))
		strcat(label, "_");
}

static bool path_is_plain(const char *path)
{
	/* google-pprof expands variables, and takes backslashes for the slashes of Windows. */
	return path[0] == '/' && xp_gperf_path_fits(path) && !strpbrk(path, "$\\");
}

/* Returns the path of a file in the directory. NULL: out of memory. */
static char *path_of(const struct xp_sym_dir *dir, const char *name)
{
	char link[64], target[PATH_MAX], *path;
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", dir->fd);
	length = readlink(link, target, sizeof(target) - 1);
	if (length > 0 && length < PATH_MAX - 1)
		target[length] = 0;
	else
		target[0] = 0;
	if (!path_is_plain(target))
		strcpy(target, XP_SYM_DIR_NAME);
	return asprintf(&path, "%s/%s", target, name) < 0 ? NULL : path;
}

char *xp_sym_dir_path(struct xp_sym_dir *dir, const char *name)
{
	return xp_sym_dir_open(dir) ? NULL : path_of(dir, name);
}

static int make_name(struct xp_sym_dir *dir, const char *label, uint32_t number, char name[NAME_MAX + 1], char **path)
{
	int err = xp_sym_dir_open(dir);

	if (err)
		return err;
	snprintf(name, NAME_MAX + 1, "%s.%u.%s.so", label, number, dir->token);
	*path = path_of(dir, name);
	return *path ? 0 : -ENOMEM;
}

int xp_sym_dir_create(struct xp_sym_dir *dir, const char *label, uint32_t number, char **path)
{
	char name[NAME_MAX + 1];
	int err = make_name(dir, label, number, name, path), fd;

	if (err)
		return err;
	fd = xp_own_file_create(dir->fd, name, O_RDWR);
	if (fd >= 0)
		return fd;
	free(*path);
	*path = NULL;
	return fd;
}

int xp_sym_dir_finish(struct xp_sym_dir *dir, int fd, char **path, int err)
{
	if (close(fd) && !err)
		err = -errno;
	if (err) {
		xp_sym_dir_remove(dir, *path);
		*path = NULL;
	}
	return err;
}

int xp_sym_dir_rename(struct xp_sym_dir *dir, const char *label, uint32_t number, const char *key, char **path)
{
	char name[NAME_MAX + 1], *renamed;

	snprintf(name, sizeof(name), "%s.%u.%s.so", label, number, key);
	renamed = path_of(dir, name);
	if (!renamed)
		return -ENOMEM;
	if (renameat(dir->fd, strrchr(*path, '/') + 1, dir->fd, name)) {
		free(renamed);
		return -errno;
	}
	free(*path);
	*path = renamed;
	return 0;
}

int xp_sym_dir_link(struct xp_sym_dir *dir, const char *shared, const char *label, uint32_t number, const char *key,
		    char **path)
{
	char name[NAME_MAX + 1];
	int err = xp_sym_dir_open(dir);

	if (err)
		return err;
	snprintf(name, sizeof(name), "%s.%u.%s.so", label, number, key);
	*path = path_of(dir, name);
	if (!*path)
		return -ENOMEM;
	if (!linkat(dir->shared_fd, shared, dir->fd, name, 0))
		return 0;
	err = -errno;
	free(*path);
	*path = NULL;
	return err;
}

char *xp_sym_dir_original(const char *path)
{
	size_t length = strlen(path), deleted = strlen(DELETED);

	return strndup(path, length > deleted && !strcmp(path + length - deleted, DELETED) ? length - deleted : length);
}

void xp_sym_dir_remove(struct xp_sym_dir *dir, char *path)
{
	unlinkat(dir->fd, strrchr(path, '/') + 1, 0);
	free(path);
}
