/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader of confined.h, once it is forked. */
#ifndef XPROF_CONFINED_READER_H
#define XPROF_CONFINED_READER_H

#include <sys/types.h>

#include "base/confined.h"

/*
 * A message of a SOCK_SEQPACKET socket: a path without a terminator. The answer: int, 0 with a descriptor, or -errno.
 */
#define XP_CONFINED_PATH_BYTES_MAX (PATH_MAX - 1)

/* Never returns. parent: the process that forked this one, and with which it dies. */
void xp_confined_reader(pid_t parent, int fd, int answers, int opener, xp_confined_read *read, const void *arg,
			const struct xp_confined_limits *limits) __attribute__((noreturn));

#endif
