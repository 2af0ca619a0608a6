/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the files of exports and comparisons. */
#ifndef XPROF_EXPORT_OUTPUT_H
#define XPROF_EXPORT_OUTPUT_H

#include <stdio.h>

/* Writes a whole file. Returns 0 or -errno; ferror(out) may show further errors. */
typedef int xp_export_write(void *arg, FILE *out);

/*
 * Writes a file with a name from the user; "-": standard output. A regular file appears under its name when complete; a
 * device or a pipe is written directly. Returns 0 or -errno, for xp_export_file_reason().
 */
int xp_export_file_given(const char *path, xp_export_write *write, void *arg);

/*
 * Writes a file in the directory of a recording, with the rights of the directory's owner. The owner may have put any
 * file under this name, so an existing file is replaced, never opened. Returns like xp_export_file_given().
 */
int xp_export_file_made(const char *directory, const char *name, xp_export_write *write, void *arg);

/*
 * Call this once, before an export or a comparison. SIGINT, SIGTERM and SIGHUP (unless ignored) then print a message,
 * remove the incomplete file, and end xprof with the signal.
 */
void xp_export_file_end_by_signals(void);

/* Returns the text of an error of these functions. */
const char *xp_export_file_reason(int err);

#endif
