// SPDX-License-Identifier: BSD-2-Clause
#include "push/push_note.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file_name.h"
#include "base/own_file.h"
#include "base/owner_rights.h"
#include "base/trusted_dir.h"
#include "base/util.h"
#include "format/manifest_reader.h"

static int write_manifest(void *text, int fd)
{
	return xp_write_all(fd, text, strlen(text)) ?: xp_write_all(fd, "\n", 1);
}

static int replace(int dir_fd, json_t *push)
{
	json_t *manifest;
	char *text = NULL;
	int err = xp_manifest_load(&manifest, dir_fd, XP_MANIFEST_NAME);

	if (!err && json_object_set(manifest, "push", push))
		err = -EBADMSG;
	if (!err) {
		text = json_dumps(manifest, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
		err = text ? xp_log_file_make(dir_fd, XP_MANIFEST_NAME, write_manifest, text) : -ENOMEM;
	}
	free(text);
	json_decref(manifest);
	return err;
}

void xp_push_note(const char *directory, const struct xp_push_config *config, const struct xp_push_counts *counts)
{
	json_t *push = json_pack("{sssssIsIsI}", "engine", xp_push_engine_name(config->engine), "url", config->base,
				 "pushed", (json_int_t)counts->pushed, "queued", (json_int_t)counts->queued, "dropped",
				 (json_int_t)(counts->dropped + counts->unstored));
	int dir_fd = xp_own_links_dir_open(directory), err = dir_fd < 0 ? dir_fd : 0, own_err;
	struct stat st;

	if (!err) {
		err = fstat(dir_fd, &st) ? -errno : xp_owner_rights_take(&st);
		err = err ?: replace(dir_fd, push);
		own_err = xp_owner_rights_return();
		err = err ?: own_err;
		close(dir_fd);
	}
	json_decref(push);
	if (err)
		xp_debug("%s: cannot add the counts of --push to manifest.json: %s", directory, strerror(-err));
}
