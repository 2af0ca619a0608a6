/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader process of confined.h, after the fork. */
#ifndef XPROF_BASE_CONFINED_READER_H
#define XPROF_BASE_CONFINED_READER_H

#include "base/child.h"
#include "base/confined.h"

/*
 * A request is a message on a SOCK_SEQPACKET socket: a path without a terminator. The reply is an int: 0 with a
 * descriptor, or -errno.
 */
#define XP_CONFINED_PATH_BYTES_MAX (PATH_MAX - 1)

struct xp_confined_reading {
	xp_confined_read *read;
	const void *arg;
	const struct xp_confined_limits *limits;
};

/*
 * Starts a reader of fd, with a socket as its channel. When the parent closes its end of the socket, the reader can
 * open no more files. Returns 0 or -errno.
 */
int xp_confined_reader_start(struct xp_child *reader, const struct xp_confined_reading *reading, int fd, int answers);

#endif
