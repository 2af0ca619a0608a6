/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the files of exports and comparisons. */
#ifndef XPROF_EXPORT_OUTPUT_H
#define XPROF_EXPORT_OUTPUT_H

#include <stdio.h>

/* Writes all of a file. Returns 0 or -errno; errors may also show in ferror(out). */
typedef int xp_export_write(void *arg, FILE *out);

/*
 * Writes a file that the user named; "-": standard output. It appears under its name once it is whole. A device or a
 * pipe is written as it is. Returns 0 or -errno, for xp_export_file_reason().
 */
int xp_export_file_given(const char *path, xp_export_write *write, void *arg);

/*
 * Makes a file in the directory of a recording. The owner of the directory can put anything under the name, so an
 * existing file is replaced, never opened, with the rights of the owner. Returns as xp_export_file_given().
 */
int xp_export_file_made(const char *directory, const char *name, xp_export_write *write, void *arg);

/*
 * Call this once, before an export or a comparison is made. SIGINT, SIGTERM and SIGHUP, unless they are ignored, then
 * print a message, remove the incomplete file, and end xprof as they would have done.
 */
void xp_export_file_end_by_signals(void);

/* Returns the text of an error of these functions. */
const char *xp_export_file_reason(int err);

#endif
