/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data that a process has written to a file through stdio and that is still in the buffer of its C library: V8 and
 * CPython leave up to 4 KiB of their jitdumps there until they compile more. Without it, 426 of 475 samples in a loop
 * of Node.js had no name. The process is not stopped, and its data is as untrusted as the file.
 *
 * Source of the layout: glibc, libio/bits/types/struct_FILE.h. The part that is read here has not changed since glibc
 * 2.1, because binaries of that time rely on it. Other C libraries have no such list, so nothing is found in them.
 */
#ifndef XPROF_JIT_STDIO_TAIL_H
#define XPROF_JIT_STDIO_TAIL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/memory.h"

/* Anything longer is no buffer. */
#define XP_STDIO_TAIL_BYTES_MAX (64u << 10)

struct xp_stdio_tail {
	struct xp_target_memory *memory; /* to read with, set by the caller; NULL has the same meaning as there */
	pid_t pid;
	int fd;		 /* the descriptor of the file in the process */
	uint64_t stream; /* address of its FILE; 0: none */
};

/* file: our descriptor of the same file. Returns 0 or -errno: -ENOENT if the process has no stream for it, -ENOMEM. */
int xp_stdio_tail_find(struct xp_stdio_tail *tail, pid_t pid, int file);
/*
 * Reads the unwritten bytes, which belong after the current end of the file. Returns their number; 0 also if they
 * cannot be read; -EAGAIN if the process wrote or filled the buffer meanwhile.
 */
ssize_t xp_stdio_tail_read(const struct xp_stdio_tail *tail, uint8_t bytes[XP_STDIO_TAIL_BYTES_MAX]);

#endif
