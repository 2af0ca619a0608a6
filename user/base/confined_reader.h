/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader process of confined.h, after the fork. */
#ifndef XPROF_BASE_CONFINED_READER_H
#define XPROF_BASE_CONFINED_READER_H

#include <sys/types.h>

#include "base/confined.h"

/*
 * A request is a message on a SOCK_SEQPACKET socket: a path without a terminator. The reply is an int: 0 with a
 * descriptor, or -errno.
 */
#define XP_CONFINED_PATH_BYTES_MAX (PATH_MAX - 1)

/* Never returns. parent is the process that forked this one; the reader dies with it. */
void xp_confined_reader(pid_t parent, int fd, int answers, int opener, xp_confined_read *read, const void *arg,
			const struct xp_confined_limits *limits) __attribute__((noreturn));

#endif
