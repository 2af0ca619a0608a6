/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * manifest.json: what was recorded, how, and what is missing. Strings may contain any characters; the writer cleans
 * them (xp_clean_text). In the file, names end in their unit, times are ISO 8601 in UTC, and build IDs are hexadecimal.
 *
 * For totals, processes and threads, seen = written + filtered.total + lost.total + overwritten (the last only with a
 * flight recorder). Numbers are integers below 2^63 (JSON readers that store them as doubles are exact up to 2^53).
 */
#ifndef XPROF_RECORD_MANIFEST_H
#define XPROF_RECORD_MANIFEST_H

#include <jansson.h>
#include <stdint.h>

struct xp_recording;
struct xp_totals;

/* Returns an upper limit of the file's size, except with unusually long names: the space to reserve. */
uint64_t xp_manifest_bytes(const struct xp_recording *recording);
/*
 * Writes the file into the recording's directory; the file appears only when complete. argv: xprof's command line, ends
 * with NULL. reserved_fd: from xp_manifest_reserve(), closed here; negative: none. Returns 0 or -errno; prints nothing.
 */
int xp_manifest_write(const struct xp_recording *recording, const struct xp_totals *totals, char *const *argv,
		      int reserved_fd);

/* manifest_file.c */

/*
 * Reserves space for the file before other files fill the disk; less than `bytes` if the disk has less. Returns a
 * descriptor for xp_manifest_write(), xp_manifest_file_write() or xp_manifest_release(), or -errno.
 */
int xp_manifest_reserve(int dir_fd, uint64_t bytes);
void xp_manifest_release(int dir_fd, int reserved_fd);
/* Removes the reserved file of a killed recording. */
void xp_manifest_recover(int dir_fd);
/*
 * Writes a manifest (NULL: out of memory), which appears only when complete. fd: of the reserved file, closed in any
 * case; negative: none. Returns 0 or -errno; then no file is left.
 */
int xp_manifest_file_write(int dir_fd, int fd, const json_t *manifest);

/* Formats a time in ns since 1970 as 2001-02-03T04:05:06.000000007Z. */
#define XP_ISO_TIME_BYTES 96
void xp_iso_time(char text[XP_ISO_TIME_BYTES], uint64_t wall_ns);

#endif
