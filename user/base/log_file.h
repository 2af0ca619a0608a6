/* SPDX-License-Identifier: BSD-2-Clause */
/* A log's file, which appears under its name when it is whole. */
#ifndef XPROF_LOG_FILE_H
#define XPROF_LOG_FILE_H

#define XP_LOG_SUFFIX ".fdr"
#define XP_LOG_PART ".part" /* of its name until then */
#define XP_LOG_NAME_MAX 240 /* so that the temporary name is no longer than a name may be */

/*
 * Makes NAME in the directory: write(arg, fd) fills an empty file, open for reading and writing. On an error, write's
 * or -errno, nothing stays.
 */
int xp_log_file_make(int dir_fd, const char *name, int (*write)(void *arg, int fd), void *arg);

#endif
