/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages between xprof and its children over a SOCK_SEQPACKET socket, optionally with a descriptor. */
#ifndef XPROF_BASE_FD_MESSAGE_H
#define XPROF_BASE_FD_MESSAGE_H

#include <stddef.h>
#include <sys/types.h>

/* Sends bytes, and fd with them (-1: none). Returns the number of bytes sent, or -errno. */
ssize_t xp_fd_message_send(int socket, const void *message, size_t bytes, int fd);
/*
 * Receives at most bytes. Sets *fd to the descriptor that came with them, which the caller then owns, or -1. Returns 0
 * at EOF, or -errno.
 */
ssize_t xp_fd_message_receive(int socket, void *message, size_t bytes, int *fd);

#endif
