/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads manifest.json. What it says is untrusted. */
#ifndef XPROF_MODEL_READ_MANIFEST_H
#define XPROF_MODEL_READ_MANIFEST_H

#include <stdbool.h>

#include <jansson.h>

/*
 * Reads the manifest in the directory. Unless quiet, a file that cannot be read gets a warning, and that of a newer
 * xprof an error message: its members may mean something else. Returns 0; *manifest is NULL if there is none or it
 * cannot be read. Returns -EPROTO for the newer one. The caller ends with json_decref().
 */
int xp_read_manifest(json_t **manifest, const char *directory, bool quiet);
/* The same for who adds to it, in a directory that is open. */
int xp_read_manifest_check(int dir_fd, const char *directory);

#endif
