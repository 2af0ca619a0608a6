// SPDX-License-Identifier: BSD-2-Clause
#include "report/read_manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include "base/file_name.h"
#include "base/file_view.h"
#include "base/util.h"
#include "report/recorded.h"

static void tell_newer(const char *path, const json_t *manifest, json_int_t version)
{
	const char *maker = json_string_value(json_object_get(manifest, "xprof_version"));

	maker = maker ? maker : "unknown";
	xp_error("%s: manifest_version %" JSON_INTEGER_FORMAT " is newer than this xprof, " XPROF_VERSION
		 ": use the version that wrote it: %.*s",
		 path, version, (int)xp_text_fit(maker, 64), maker);
}

int xp_read_manifest(json_t **manifest, const char *directory, bool quiet)
{
	struct xp_file_view view;
	json_error_t error;
	char path[PATH_MAX];
	json_int_t version;

	*manifest = NULL;
	if ((size_t)snprintf(path, sizeof(path), "%s/" XP_MANIFEST_NAME, directory) >= sizeof(path) ||
	    xp_file_view_open(&view, AT_FDCWD, path))
		return 0;
	if (view.size <= XP_RECORDED_MANIFEST_BYTES_MAX)
		*manifest = json_loadb((const char *)view.bytes, view.size, 0, &error);
	if (!*manifest && !quiet)
		xp_warn("%s: cannot read the manifest; continuing without it", path);
	xp_file_view_close(&view);
	version = json_integer_value(json_object_get(*manifest, "manifest_version"));
	if (version <= XP_MANIFEST_VERSION)
		return 0;
	if (!quiet)
		tell_newer(path, *manifest, version);
	json_decref(*manifest);
	*manifest = NULL;
	return -EPROTO;
}
