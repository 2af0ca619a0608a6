/* SPDX-License-Identifier: BSD-2-Clause */
/* The names that tables give to files. */
#ifndef XPROF_MODEL_OBJECTS_H
#define XPROF_MODEL_OBJECTS_H

#include "model/symbolize.h"

/* Returns the part of the path after its last slash, or the path itself if it ends with a slash. */
const char *xp_object_base_name(const char *path);

/*
 * The name of a file in tables: that of the real file, since profiles may contain links for the sake of their readers;
 * of a file in sym/, that of the code. NULL: out of memory.
 */
const char *xp_object_display_name(struct xp_symbolizer *symbolizer, uint32_t file);

/* Whether the file is in a directory sym/, like those that a recording makes. */
bool xp_report_is_sym_file(const char *path);

#endif
