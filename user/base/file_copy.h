/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef XPROF_BASE_FILE_COPY_H
#define XPROF_BASE_FILE_COPY_H

#include <stdint.h>

#include "base/interval_map.h"

/*
 * Copies the regular file from_fd to the empty file to_fd and preserves holes. omitted has sorted ranges that become
 * holes too. Moves both file positions. *bytes is the most that may be written; on return, what is left of it. Returns
 * 0 or -errno: -EINVAL if from_fd is not a regular file, -EFBIG if it exceeds *bytes, or an error of read(2) or
 * write(2).
 */
int xp_file_copy(int from_fd, int to_fd, const struct xp_interval_map *omitted, uint64_t *bytes);

#endif
