/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads an untrusted file with libraries that trust their input. The reader is a process without privileges. It has two
 * descriptors, the file and the pipe for its answers, and limits on time and memory.
 *
 * libdw opens files that the file names: separate debug files, .dwo files. The reader cannot open any file. When a
 * library in it tries to, seccomp traps the system call and a second process, the opener, opens the file instead. The
 * opener opens only regular ELF files with an absolute path that the owner of the first file may read. The opener
 * parses only paths. Root's opener keeps its privileges; another user's opener drops its capabilities. It may hang in a
 * file system, so both processes end at the deadline.
 *
 *     caller <--- answers ---- reader (nobody)
 *       `---- starts ---> opener <--- paths, files ---^
 */
#ifndef XPROF_BASE_CONFINED_H
#define XPROF_BASE_CONFINED_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>

/*
 * The reader starts with limits of 10 s of CPU time and 256 MiB of memory. Each 32 MiB of files that it reads adds 1 s
 * and 512 MiB, up to these limits.
 */
struct xp_confined_limits {
	uint64_t ns; /* wall-clock time for the whole read */
	unsigned int cpu_seconds;
	rlim_t address_bytes; /* as in struct xp_child_limits */
};

/* Runs in the reader: reads the file fd and writes its answers to out. The return value is the reader's exit code. */
typedef int xp_confined_read(int fd, FILE *out, const void *arg);

struct xp_confined;

/*
 * Starts reading a file, which must be regular and have an absolute path. The caller reads the answers until EOF,
 * treats them as untrusted, and calls xp_confined_end(). Returns 0 or -errno; the error of open(2) if the file cannot
 * be opened.
 */
int xp_confined_start(struct xp_confined **confined, const char *path, xp_confined_read *read, const void *arg,
		      const struct xp_confined_limits *limits);

/*
 * Like xp_confined_start(), for an open regular file. The caller keeps the descriptor. The reader can open no other
 * file, so there is no opener and no real path.
 */
int xp_confined_start_fd(struct xp_confined **confined, int fd, xp_confined_read *read, const void *arg,
			 const struct xp_confined_limits *limits);

/* Returns the stream of the answers. At the deadline it returns EOF. */
FILE *xp_confined_answers(const struct xp_confined *confined);
/* Returns the path of the file with symbolic links resolved. */
const char *xp_confined_real_path(const struct xp_confined *confined);

enum xp_confined_end {
	XP_CONFINED_DONE,
	XP_CONFINED_FAILED, /* the reader returned a code other than 0, or died */
	XP_CONFINED_LATE,   /* the deadline passed */
};

enum xp_confined_end xp_confined_end(struct xp_confined *confined);

#endif
