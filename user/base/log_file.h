/* SPDX-License-Identifier: BSD-2-Clause */
/* The file of a log. It appears under its final name once it is complete. */
#ifndef XPROF_BASE_LOG_FILE_H
#define XPROF_BASE_LOG_FILE_H

#define XP_LOG_SUFFIX ".fdr"
#define XP_LOG_PART ".part" /* suffix of the temporary name */
#define XP_LOG_NAME_MAX 240 /* keeps the temporary name within NAME_MAX */

/*
 * Makes the file NAME in the directory. write(arg, fd) fills an empty file that is open for reading and writing. On an
 * error, either write's or -errno, no file is left.
 */
int xp_log_file_make(int dir_fd, const char *name, int (*write)(void *arg, int fd), void *arg);

#endif
