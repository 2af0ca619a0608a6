/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads manifest.json of a recording (xprof-formats(5)). Any member may be missing or have another type. */
#ifndef XPROF_FORMAT_MANIFEST_READER_H
#define XPROF_FORMAT_MANIFEST_READER_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#define XP_MANIFEST_BYTES_MAX (64u << 20) /* a larger one is not read */

/*
 * name: relative to dir_fd, which may be AT_FDCWD. The caller calls json_decref(*manifest). Returns 0 or -errno, where
 * *manifest is NULL: an error of xp_file_view_open(), -EFBIG if the file is too large, -ENOMEM if what it says takes
 * too much memory, or -EBADMSG if it is not JSON.
 */
int xp_manifest_load(json_t **manifest, int dir_fd, const char *name);

/*
 * Reads the manifest of a directory. A file that cannot be read gets a warning, and that of a newer xprof an error
 * message: its members may mean something else. Returns 0, where *manifest is NULL if there is none or it
 * cannot be read, or -EPROTO for the newer one. The caller ends with json_decref().
 */
int xp_manifest_read(json_t **manifest, const char *directory);
/* Like xp_manifest_read(), for a caller that adds to the manifest of an open directory. */
int xp_manifest_check(int dir_fd, const char *directory);

/* A member of an object; 0: it has none, or that is no number above 0. */
uint64_t xp_manifest_number(const json_t *object, const char *key);
/* Returns the string with this key, or NULL if there is none or it is not a string. Valid as long as the object. */
const char *xp_manifest_string(const json_t *object, const char *key);

#endif
