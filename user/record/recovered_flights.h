/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adds the logs that a flight recorder wrote before its recording was interrupted to the manifest of `xprof recover`.
 */
#ifndef XPROF_RECORD_RECOVERED_FLIGHTS_H
#define XPROF_RECORD_RECOVERED_FLIGHTS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* Further logs are not named: anybody may have made the directory's files. */
#define XP_RECOVERED_FLIGHTS_MAX 65536

/* Returns whether a file of this name is a log of a flight recorder. */
bool xp_recovered_flights_is_log(const char *name);
/*
 * Adds the logs of a directory that the manifest lacks, each to its process. If the manifest lacks the process, adds a
 * process with the facts in the name of the log. *added: the number of logs. Returns 0 or -errno.
 */
int xp_recovered_flights_add(json_t *manifest, int dir_fd, size_t *added);

#endif
