/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads a file that nobody vouches for with libraries that trust it, in a process that has no privileges, no file but
 * this one and the pipe for its answers, and limits of time and memory.
 *
 * libdw opens files that the file names: separate debug files, .dwo files. The process cannot open any; where a library
 * in it tries to, the system call is trapped (seccomp) and a second process opens the file instead: a regular ELF file
 * with an absolute path, and only one that the owner of the first file may read. That second process has the caller's
 * privileges, reads nothing but paths, and may hang in a file system: so both end at the deadline.
 *
 *	caller  <--- answers ----  reader (nobody)
 *	   `---- starts --->  opener  <--- paths, files ---^
 */
#ifndef XPROF_CONFINED_H
#define XPROF_CONFINED_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>

struct xp_confined_limits {
	uint64_t ns; /* of the clock, for all of it */
	unsigned int cpu_seconds;
	rlim_t address_bytes;
};

/* Runs in the reader, where fd is the file, and writes its answers. What it returns is the reader's exit code. */
typedef int xp_confined_read(int fd, FILE *out, const void *arg);

struct xp_confined;

/*
 * Starts reading the file of this path, which must be a regular one with an absolute path. The caller reads the answers
 * until their end, believing none of them, and ends it. -errno; that of open(2) where the file cannot be opened.
 */
int xp_confined_start(struct xp_confined **confined, const char *path, xp_confined_read *read, const void *arg,
		      const struct xp_confined_limits *limits);

/* They end early at the deadline. */
FILE *xp_confined_answers(const struct xp_confined *confined);
/* Where the file is, behind links. */
const char *xp_confined_real_path(const struct xp_confined *confined);

enum xp_confined_end {
	XP_CONFINED_DONE,
	XP_CONFINED_FAILED, /* it returned another code than 0, or it died */
	XP_CONFINED_LATE,   /* it took longer than it may */
};

enum xp_confined_end xp_confined_end(struct xp_confined *confined);

#endif
