/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process has written to a file through stdio that is still in the buffer of its C library, and so not in the
 * file: V8 and CPython leave up to 4 KiB of their jitdumps there, for as long as they compile nothing more. The process
 * is not stopped, and what it shows is believed as little as the file.
 *
 * Source of the layout: glibc, libio/bits/types/struct_FILE.h, whose part that is read here has not changed since
 * glibc 2.1, and is what binaries of that time count on. Other C libraries have no such list: nothing is found then.
 */
#ifndef XPROF_STDIO_TAIL_H
#define XPROF_STDIO_TAIL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/memory.h"

/* What is longer is no buffer. */
#define XP_STDIO_TAIL_BYTES_MAX (64u << 10)

struct xp_stdio_tail {
	struct xp_target_memory *memory; /* to read with, set by the caller; NULL as there */
	pid_t pid;
	int fd;		 /* the number of the file in the process */
	uint64_t stream; /* address of its FILE; 0: none */
};

/* file: a descriptor here of the same file. 0; -ENOENT the process has no stream of it; -ENOMEM. */
int xp_stdio_tail_find(struct xp_stdio_tail *tail, pid_t pid, int file);
/* How many bytes wait to be written: they belong behind what the file has now. 0 too when they cannot be read. */
size_t xp_stdio_tail_read(const struct xp_stdio_tail *tail, uint8_t bytes[XP_STDIO_TAIL_BYTES_MAX]);

#endif
