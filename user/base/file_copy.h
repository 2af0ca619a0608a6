/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef XPROF_FILE_COPY_H
#define XPROF_FILE_COPY_H

#include <stdint.h>

#include "base/interval_map.h"

/*
 * Copies the regular file from_fd to to_fd, which is an empty one, holes as holes. omitted: sorted ranges that become
 * holes too. Both positions move. *bytes: how much may be written, and then how much of it is left. -EINVAL of what is
 * no regular file, -EFBIG when it is larger, those of read(2) and write(2).
 */
int xp_file_copy(int from_fd, int to_fd, const struct xp_spans *omitted, uint64_t *bytes);

#endif
