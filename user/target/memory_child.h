/* SPDX-License-Identifier: BSD-2-Clause */
/* The child process of memory.h that accesses another process: its requests, and its loop. Only memory.c uses it. */
#ifndef XPROF_TARGET_MEMORY_CHILD_H
#define XPROF_TARGET_MEMORY_CHILD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define XP_MEMORY_PIECE_BYTES (256u << 10)

enum xp_memory_operation {
	XP_MEMORY_READ, /* from process pid */
	XP_MEMORY_HOLD, /* with a descriptor of /proc/PID/mem */
	XP_MEMORY_READ_HELD,
	XP_MEMORY_WRITE_HELD,
	XP_MEMORY_READ_MAPS,   /* the next piece of /proc/PID/maps; address: bytes read so far */
	XP_MEMORY_MAPPED_FILE, /* returns an O_PATH descriptor of the file mapped from address to end */
};

struct xp_memory_request {
	enum xp_memory_operation operation;
	pid_t pid;
	uint32_t size; /* at most XP_MEMORY_PIECE_BYTES */
	uint64_t address;
	uint64_t end;
};

/*
 * The main function of the child (base/child.h): serves requests until the channel is closed. piece:
 * XP_MEMORY_PIECE_BYTES that both processes share.
 */
int xp_memory_serve(void *piece);

/* xprof also calls these functions for its own process, without the child. All return -errno on error. */
ssize_t xp_memory_read_process(pid_t pid, uint64_t address, void *to, size_t size);
int xp_memory_open_maps(pid_t pid);
/* Reads until EOF or until `to` is full: the kernel returns one page of the text per read. */
ssize_t xp_memory_read_text(int fd, uint8_t *to, size_t size);

#endif
