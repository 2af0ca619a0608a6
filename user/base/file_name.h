/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of a recording's files. */
#ifndef XPROF_FILE_NAME_H
#define XPROF_FILE_NAME_H

#include <stddef.h>
#include <sys/types.h>

#define XP_FILE_BASE_BYTES 48

/*
 * <comm>.<pid>, and <comm>.<pid>.<image> for the images after the first: what the files of one image of a process begin
 * with. comm is the target's to choose: characters that are not safe in a file name become '_'.
 */
void xp_file_base_name(char *name, size_t size, const char *comm, pid_t pid, unsigned int image);

#endif
