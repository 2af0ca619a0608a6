// SPDX-License-Identifier: BSD-2-Clause
#include "push/push_note.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file_name.h"
#include "base/file_view.h"
#include "base/own_file.h"
#include "base/owner_rights.h"
#include "base/trusted_dir.h"
#include "base/util.h"

static json_t *read_manifest(int dir_fd)
{
	int fd = xp_file_open_regular(dir_fd, XP_MANIFEST_NAME);
	json_t *manifest = fd < 0 ? NULL : json_loadfd(fd, 0, NULL);

	if (fd >= 0)
		close(fd);
	return manifest;
}

static int write_manifest(void *manifest, int fd)
{
	errno = 0;
	if (json_dumpfd(manifest, fd, JSON_INDENT(2) | JSON_REAL_PRECISION(15)))
		return errno ? -errno : -EIO;
	return xp_write_all(fd, "\n", 1);
}

static int replace(int dir_fd, json_t *push)
{
	json_t *manifest = read_manifest(dir_fd);
	int err;

	if (!manifest) {
		json_decref(push);
		return -ENOENT;
	}
	err = json_object_set_new(manifest, "push", push) ? -ENOMEM : 0;
	err = err ?: xp_log_file_make(dir_fd, XP_MANIFEST_NAME, write_manifest, manifest);
	json_decref(manifest);
	return err;
}

void xp_push_note(const char *directory, const struct xp_push_config *config, const struct xp_push_counts *counts)
{
	json_t *push = json_pack("{sssssIsIsI}", "engine", xp_push_engine_name(config->engine), "url", config->base,
				 "pushed", (json_int_t)counts->pushed, "queued", (json_int_t)counts->queued, "dropped",
				 (json_int_t)counts->dropped);
	int dir_fd = xp_own_links_dir_open(directory), err = dir_fd < 0 ? dir_fd : 0, own_err;
	struct stat st;

	if (err) {
		json_decref(push);
	} else {
		err = fstat(dir_fd, &st) ? -errno : xp_owner_rights_take(&st);
		err = err ?: replace(dir_fd, push);
		own_err = xp_owner_rights_return();
		err = err ?: own_err;
		close(dir_fd);
	}
	if (err)
		xp_debug("%s: cannot add the counts of --push to manifest.json: %s", directory, strerror(-err));
}
