// SPDX-License-Identifier: BSD-2-Clause
#include "target/mount_kind.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/small_file.h"

/*
 * maximum lines of mountinfo: a process can have 100 000 mounts (fs.mount-max), and they are read for each of its files
 */
#define LINES_MAX 4096

enum kind {
	UNKNOWN,
	OWN,	  /* the kernel's */
	OVERLAID, /* like its layers, which depend on the user who mounted it */
	SERVED,
};

/* ---- devices that exist as long as xprof: no other file system gets their numbers ---- */

static pthread_once_t devices_once = PTHREAD_ONCE_INIT;
static dev_t root_device, memory_device;

/* Sets both devices; 0: unknown. The root may itself be on a served file system, but then everything is. */
static void learn_devices(void)
{
	int memory = memfd_create("xprof", MFD_CLOEXEC);
	struct stat st;

	if (!stat("/", &st))
		root_device = st.st_dev;
	if (memory >= 0 && !fstat(memory, &st))
		memory_device = st.st_dev;
	if (memory >= 0)
		close(memory);
}

/* Returns true for a disk or a known device. Unprivileged users can mount only file systems without a disk. */
static bool has_known_device(const struct statx *st)
{
	dev_t device = makedev(st->stx_dev_major, st->stx_dev_minor);

	if (st->stx_dev_major)
		return true;
	pthread_once(&devices_once, learn_devices);
	return device && (device == root_device || device == memory_device);
}

/* ---- mounts ---- */

static enum kind kind_of(const char *type)
{
	size_t length = strcspn(type, " \n");

	if (length >= 4 && !strncmp(type, "fuse", 4))
		return SERVED;
	return length == 7 && !strncmp(type, "overlay", 7) ? OVERLAID : OWN;
}

/* proc(5): ID parent major:minor root place options [fields] - type source options */
static enum kind find_kind(pid_t pid, unsigned long long mount)
{
	enum kind kind = UNKNOWN;
	char path[64], *line = NULL;
	size_t room = 0;
	FILE *file;

	snprintf(path, sizeof(path), pid ? "/proc/%d/mountinfo" : "/proc/self/mountinfo", pid);
	file = fopen(path, "re");
	for (int i = 0; file && kind == UNKNOWN && i < LINES_MAX && getline(&line, &room, file) > 0; i++) {
		const char *type = strstr(line, " - ");

		if (type && strtoull(line, NULL, 10) == mount)
			kind = kind_of(type + 3);
	}
	free(line);
	if (file)
		fclose(file);
	return kind;
}

static int open_namespace(pid_t pid, struct stat *st)
{
	int fd = xp_open_format(O_RDONLY, "/proc/%d/ns/mnt", pid);

	if (fd >= 0 && !fstat(fd, st))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Returns true if the mount namespace belongs to xprof's user namespace: then a privileged user made its mounts. */
static bool is_privileged(int namespace)
{
	int owner = ioctl(namespace, NS_GET_USERNS);
	struct stat st, own;
	bool is_own = owner >= 0 && !fstat(owner, &st) && !stat("/proc/self/ns/user", &own) &&
		      st.st_dev == own.st_dev && st.st_ino == own.st_ino;

	if (owner >= 0)
		close(owner);
	return is_own;
}

/*
 * Returns whether all layers of an overlay are local: an overlay that a user namespace mounted may have served layers.
 * Checks before and after that the process is in the same mount namespace, because the answer is about the mounts of
 * that namespace.
 */
static bool overlay_is_local(pid_t pid, unsigned long long mount)
{
	struct stat before, after;
	int namespace = open_namespace(pid ? pid : getpid(), &before), again;
	bool is_local = namespace >= 0 && is_privileged(namespace) && find_kind(pid, mount) == OVERLAID;

	again = is_local ? open_namespace(pid ? pid : getpid(), &after) : -1;
	is_local = again >= 0 && before.st_ino == after.st_ino;
	if (again >= 0)
		close(again);
	if (namespace >= 0)
		close(namespace);
	return is_local;
}

bool xp_mount_is_local(const struct statx *st, pid_t pid)
{
	enum kind kind;

	if (has_known_device(st))
		return true;
	if (!(st->stx_mask & STATX_MNT_ID)) /* before Linux 5.8 */
		return false;
	kind = find_kind(pid, st->stx_mnt_id);
	if (kind == UNKNOWN && pid)
		return xp_mount_is_local(st, 0);
	return kind == OWN || (kind == OVERLAID && overlay_is_local(pid, st->stx_mnt_id));
}
