/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of files in tables. */
#ifndef XPROF_MODEL_OBJECTS_H
#define XPROF_MODEL_OBJECTS_H

#include "model/symbolize.h"

/* Returns the part of the path after its last slash, or the path itself if it ends with a slash. */
const char *xp_object_base_name(const char *path);

/*
 * Returns the name of a file for tables: the name of the real file, because profiles may contain links for other tools;
 * for a file in sym/, the name of its code. NULL: out of memory.
 */
const char *xp_object_display_name(struct xp_symbolizer *symbolizer, uint32_t file);

/* Returns whether the file is in a directory sym/, like the files of a recording. */
bool xp_report_is_sym_file(const char *path);

#endif
