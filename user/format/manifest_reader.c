// SPDX-License-Identifier: BSD-2-Clause
#include "format/manifest_reader.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/file_view.h"
#include "base/util.h"

/*
 * What a manifest may take in memory. The longest ones of xprof take 5 times their size; an array of empty objects
 * would take 80 times.
 */
#define MEMORY_BYTES_MAX ((size_t)384 << 20)

/* ---- what jansson allocates ---- */

static _Thread_local bool is_reading;
static _Thread_local size_t left_bytes;

static void *take(size_t size)
{
	void *taken = is_reading && size > left_bytes ? NULL : malloc(size);

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

static json_t *read_json(const struct xp_file_view *view)
{
	json_t *json;

	json_set_alloc_funcs(take, give_back);
	is_reading = true;
	left_bytes = MEMORY_BYTES_MAX;
	json = json_loadb((const char *)view->bytes, view->size, 0, NULL);
	is_reading = false;
	return json;
}

/* ---- the manifest ---- */

int xp_manifest_load(json_t **manifest, int dir_fd, const char *name)
{
	struct xp_file_view view;
	int err = xp_file_view_open(&view, dir_fd, name);

	*manifest = NULL;
	if (err)
		return err;
	if (view.size <= XP_MANIFEST_BYTES_MAX)
		*manifest = read_json(&view);
	xp_file_view_close(&view);
	return *manifest ? 0 : -EBADMSG;
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
