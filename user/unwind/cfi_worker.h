/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process that makes unwind tables (cfi_build.h), and what is said to it. It has no privileges and no descriptors
 * but its socket, reads nothing but requests, and has each file read in a child of its own, limited in time and memory:
 * what a hostile file can do there ends with that child, and touches the table of no other file.
 */
#ifndef XPROF_CFI_WORKER_H
#define XPROF_CFI_WORKER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Of one piece of a file. Those that compilers make take some milliseconds. */
#define XP_CFI_BUILD_SECONDS 20
#define XP_CFI_BUILD_CPU_SECONDS 5

/* One message of a SOCK_SEQPACKET socket, with the file's descriptor. */
struct xp_cfi_request {
	uint64_t id;
	uint32_t start; /* the piece [start, end) of the file */
	uint32_t end;
	bool is_foreign;     /* whoever made it may have made it to take time: behind all that is */
	char path[PATH_MAX]; /* as far as its terminator is sent; "": none */
};

/* Answers come in the order of requests. */
struct xp_cfi_answer {
	uint64_t id;
	int32_t err; /* 0: with the descriptor of a sealed memfd; as of xp_cfi_build(), or -EIO: the child died */
	uint32_t pad;
};

/*
 * Starts it. Returns our end of the socket, which does not block, or -errno. It ends when that is closed, or when the
 * thread that called this ends; the caller kills and reaps it.
 */
int xp_cfi_worker_start(pid_t *pid);

/* Both ends: a message with at most one descriptor (-1: none). As sendmsg(2) and recvmsg(2) but for -errno. */
ssize_t xp_cfi_send(int socket, const void *message, size_t bytes, int fd);
ssize_t xp_cfi_receive(int socket, void *message, size_t bytes, int *fd);

#endif
