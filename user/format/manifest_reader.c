// SPDX-License-Identifier: BSD-2-Clause
#include "format/manifest_reader.h"

#include <errno.h>

#include "base/file_view.h"

int xp_manifest_load(json_t **manifest, int dir_fd, const char *name)
{
	struct xp_file_view view;
	int err = xp_file_view_open(&view, dir_fd, name);

	*manifest = NULL;
	if (err)
		return err;
	if (view.size <= XP_MANIFEST_BYTES_MAX)
		*manifest = json_loadb((const char *)view.bytes, view.size, 0, NULL);
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
