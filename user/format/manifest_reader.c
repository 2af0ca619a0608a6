// SPDX-License-Identifier: BSD-2-Clause
#include "format/manifest_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file_name.h"
#include "base/file_view.h"
#include "base/util.h"

/*
 * Limit for the memory of a manifest. The longest manifests of xprof need 5 times their file size; an array of empty
 * objects would need 80 times.
 */
#define MEMORY_BYTES_MAX ((size_t)384 << 20)

/* ---- limits the memory that jansson allocates ---- */

static _Thread_local bool is_reading;
static _Thread_local size_t left_bytes;
static _Thread_local bool is_too_much;

static void *take(size_t size)
{
	void *taken = is_reading && size > left_bytes ? NULL : malloc(size);

	is_too_much |= !taken;
	if (taken && is_reading)
		left_bytes -= XP_MIN(malloc_usable_size(taken), left_bytes);
	return taken;
}

static void give_back(void *taken)
{
	if (taken && is_reading)
		left_bytes += malloc_usable_size(taken);
	free(taken);
}

static int read_json(json_t **json, const struct xp_file_view *view)
{
	if (view->size > XP_MANIFEST_BYTES_MAX)
		return -EFBIG;
	json_set_alloc_funcs(take, give_back);
	is_reading = true;
	is_too_much = false;
	left_bytes = MEMORY_BYTES_MAX;
	*json = json_loadb((const char *)view->bytes, view->size, 0, NULL);
	is_reading = false;
	if (*json)
		return 0;
	return is_too_much ? -ENOMEM : -EBADMSG;
}

/* ---- the manifest ---- */

int xp_manifest_load(json_t **manifest, int dir_fd, const char *name)
{
	struct xp_file_view view;
	int err = xp_file_view_open(&view, dir_fd, name);

	*manifest = NULL;
	if (err)
		return err;
	err = read_json(manifest, &view);
	xp_file_view_close(&view);
	return err;
}

/* Prints why an existing manifest cannot be read. */
static void tell_unread(const char *path, int err)
{
	char why[64] = "it is not JSON";

	if (err == -EFBIG)
		snprintf(why, sizeof(why), "it is larger than %u MiB", XP_MANIFEST_BYTES_MAX >> 20);
	else if (err == -ENOMEM)
		snprintf(why, sizeof(why), "it takes more than %zu MiB of memory", MEMORY_BYTES_MAX >> 20);
	xp_warn("%s: cannot read the manifest: %s; continuing without it", path, why);
}

static void tell_newer(const char *path, const json_t *manifest, json_int_t version)
{
	const char *maker = xp_manifest_string(manifest, "xprof_version");

	maker = maker ? maker : "unknown";
	xp_error("%s: manifest_version %" JSON_INTEGER_FORMAT " is newer than this xprof, " XPROF_VERSION
		 ": use the version that wrote it: %.*s",
		 path, version, (int)xp_text_fit(maker, 64), maker);
}

static int read_manifest(json_t **manifest, int dir_fd, const char *name, const char *path)
{
	int err = xp_manifest_load(manifest, dir_fd, name);
	json_int_t version;

	if (err == -EBADMSG || err == -EFBIG || err == -ENOMEM)
		tell_unread(path, err);
	version = json_integer_value(json_object_get(*manifest, "manifest_version"));
	if (version <= XP_MANIFEST_VERSION)
		return 0;
	tell_newer(path, *manifest, version);
	json_decref(*manifest);
	*manifest = NULL;
	return -EPROTO;
}

int xp_manifest_read(json_t **manifest, const char *directory)
{
	char path[PATH_MAX];

	*manifest = NULL;
	if ((size_t)snprintf(path, sizeof(path), "%s/" XP_MANIFEST_NAME, directory) >= sizeof(path))
		return 0;
	return read_manifest(manifest, AT_FDCWD, path, path);
}

int xp_manifest_check(int dir_fd, const char *directory)
{
	char path[PATH_MAX];
	json_t *manifest;
	int err;

	snprintf(path, sizeof(path), "%s/" XP_MANIFEST_NAME, directory);
	err = read_manifest(&manifest, dir_fd, XP_MANIFEST_NAME, path);
	json_decref(manifest);
	return err;
}

uint64_t xp_manifest_number(const json_t *object, const char *key)
{
	json_int_t number = json_integer_value(json_object_get(object, key));

	return number > 0 ? (uint64_t)number : 0;
}

const char *xp_manifest_string(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}
