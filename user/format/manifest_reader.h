/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads manifest.json of a recording (xprof-formats(5)). Any member may be missing or have another type. */
#ifndef XPROF_FORMAT_MANIFEST_READER_H
#define XPROF_FORMAT_MANIFEST_READER_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#define XP_MANIFEST_BYTES_MAX (64u << 20) /* maximum size of a manifest; larger ones are not read */

/*
 * Reads a manifest. name is relative to dir_fd, which may be AT_FDCWD. Returns 0, and the caller calls
 * json_decref(*manifest), or -errno with *manifest NULL: an error of xp_file_view_open(), -EFBIG if the file is too
 * large, -ENOMEM if its contents need too much memory, or -EBADMSG if it is not JSON.
 */
int xp_manifest_load(json_t **manifest, int dir_fd, const char *name);

/*
 * Reads the manifest of a directory. Prints a warning if the file cannot be read, and an error if a newer xprof wrote
 * it, because its members may have another meaning. Returns 0, with *manifest NULL if there is no readable manifest, or
 * -EPROTO for a newer version. The caller calls json_decref().
 */
int xp_manifest_read(json_t **manifest, const char *directory);
/* Like xp_manifest_read(), but only checks the manifest of an open directory, for a caller that adds to it. */
int xp_manifest_check(int dir_fd, const char *directory);

/* Returns a member of an object as a number; 0 if it is missing or not a positive number. */
uint64_t xp_manifest_number(const json_t *object, const char *key);
/* Returns the string with this key, or NULL if there is none or it is not a string. Valid as long as the object. */
const char *xp_manifest_string(const json_t *object, const char *key);

#endif
