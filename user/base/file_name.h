/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of a recording's files. */
#ifndef XPROF_BASE_FILE_NAME_H
#define XPROF_BASE_FILE_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define XP_MANIFEST_NAME "manifest.json"
#define XP_PERF_DATA_NAME "perf.data"
/* Version of the layout of the manifest. Increase it when a member changes its meaning or is removed. */
#define XP_MANIFEST_VERSION 1
/* Returns whether the name or path ends with the suffix and is longer than it. */
bool xp_file_ends_with(const char *name, const char *suffix);
#define XP_SPOOL_SUFFIX ".spool" /* suffix of every spool's name, for `xprof recover` */
bool xp_file_is_spool(const char *name);
#define XP_FILE_BASE_BYTES 48
#define XP_FILE_PROFILE_BYTES (XP_FILE_BASE_BYTES + sizeof(XP_WAIT_PROFILE_SUFFIX))
#define XP_PROFILE_SUFFIX ".prof"	    /* suffix of a CPU-time profile */
#define XP_WAIT_PROFILE_SUFFIX ".wait.prof" /* suffix of a profile of waits */

/*
 * The files that `xprof export` writes to the directory of a recording: samples.FORMAT, calls.FORMAT and
 * recording.html.
 */
#define XP_EXPORT_SAMPLES "samples"
#define XP_EXPORT_CALLS "calls"
#define XP_EXPORT_WAITS "waits"
#define XP_EXPORT_RECORDING "recording"
bool xp_file_is_export(const char *name);

/*
 * The directory of a part of a recording (record --rotate): 20261127T231500Z, its start in UTC, and -001 and so on
 * after it if another part began in the same second. The names sort by time.
 */
#define XP_FILE_PART_FORMAT "%Y%m%dT%H%M%SZ"
#define XP_FILE_PART_BYTES 32
/* start_s: since 1970. */
bool xp_file_is_part(const char *name, uint64_t *start_s);

/*
 * The prefix of the file names of one image of a process: <comm>.<pid>, and <comm>.<pid>.<image> after the first image.
 * The target chooses comm, so characters that are unsafe in a file name become '_'.
 */
void xp_file_base_name(char *name, size_t size, const char *comm, pid_t pid, unsigned int image);
/* Returns whether the name has only characters that xp_file_base_name() writes. */
bool xp_file_is_base_name(const char *name);

#endif
