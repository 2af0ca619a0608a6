// SPDX-License-Identifier: BSD-2-Clause
#include "model/read_manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include "base/file_name.h"
#include "base/util.h"
#include "format/manifest_reader.h"

static void tell_newer(const char *path, const json_t *manifest, json_int_t version)
{
	const char *maker = xp_manifest_string(manifest, "xprof_version");

	maker = maker ? maker : "unknown";
	xp_error("%s: manifest_version %" JSON_INTEGER_FORMAT " is newer than this xprof, " XPROF_VERSION
		 ": use the version that wrote it: %.*s",
		 path, version, (int)xp_text_fit(maker, 64), maker);
}

static int read_manifest(json_t **manifest, int dir_fd, const char *name, const char *path, bool quiet)
{
	json_int_t version;

	if (xp_manifest_load(manifest, dir_fd, name) == -EBADMSG && !quiet)
		xp_warn("%s: cannot read the manifest; continuing without it", path);
	version = json_integer_value(json_object_get(*manifest, "manifest_version"));
	if (version <= XP_MANIFEST_VERSION)
		return 0;
	if (!quiet)
		tell_newer(path, *manifest, version);
	json_decref(*manifest);
	*manifest = NULL;
	return -EPROTO;
}

int xp_read_manifest(json_t **manifest, const char *directory, bool quiet)
{
	char path[PATH_MAX];

	*manifest = NULL;
	if ((size_t)snprintf(path, sizeof(path), "%s/" XP_MANIFEST_NAME, directory) >= sizeof(path))
		return 0;
	return read_manifest(manifest, AT_FDCWD, path, path, quiet);
}

int xp_read_manifest_check(int dir_fd, const char *directory)
{
	char path[PATH_MAX];
	json_t *manifest;
	int err;

	snprintf(path, sizeof(path), "%s/" XP_MANIFEST_NAME, directory);
	err = read_manifest(&manifest, dir_fd, XP_MANIFEST_NAME, path, false);
	json_decref(manifest);
	return err;
}
