/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef XPROF_BASE_FILE_COPY_H
#define XPROF_BASE_FILE_COPY_H

#include <stdint.h>

#include "base/interval_map.h"

/*
 * Copies the regular file from_fd to the empty file to_fd. Keeps holes, and also makes holes of the sorted ranges in
 * `omitted`. Moves both file positions. *bytes is the maximum to write, and is reduced by the bytes written. Returns 0
 * or -errno: -EINVAL if from_fd is not a regular file, -EFBIG if it exceeds *bytes, or an error of read(2) or write(2).
 */
int xp_file_copy(int from_fd, int to_fd, const struct xp_interval_map *omitted, uint64_t *bytes);

#endif
