/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The jitdump that a recording writes of the JIT code of one process image (jit-<pid>.dump), for `perf inject --jit`
 * with the perf.data of the same recording: what the registry of its code hears, in that order, with TSC times.
 *
 * The file begins with the first code and only grows, so it is under its final name from then on: cut off anywhere it
 * is readable. A full disk leaves its whole records; what found no place is counted.
 */
#ifndef XPROF_JIT_DUMP_OUT_H
#define XPROF_JIT_DUMP_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jit/code.h"

/* The file's size: what a target makes of its code is its own choice. */
#define XP_JIT_DUMP_OUT_BYTES_MAX (1ull << 30)
/* And of all files of a recording, however many processes there are. */
#define XP_JIT_DUMP_OUT_ALL_BYTES_MAX (4ull << 30)
/* Code whose bytes nobody knows is written as so many int3 (perf takes no less than all its bytes); more is not. */
#define XP_JIT_DUMP_OUT_FILL_BYTES_MAX (1u << 20)

struct xp_jit_dump_out;

struct xp_jit_dump_out_options {
	int dir_fd;	    /* of the recording; stays the caller's */
	pid_t pid;	    /* as in perf.data */
	unsigned int image; /* 0 the first that has this pid, 1 the next (after exec, or when the pid is used again) */
	uint64_t start_tsc; /* of the recording: code that is older is as old as it */
	bool to_the_letter; /* version 2, unwinding data in the text's order: perf takes neither */
	/*
	 * What all files may still grow by, at first XP_JIT_DUMP_OUT_ALL_BYTES_MAX; outlives this one, which takes no
	 * more than it leaves the others.
	 */
	uint64_t *bytes_left;
};

struct xp_jit_dump_out_counts {
	uint64_t functions;
	uint64_t functions_filled; /* of these, without their bytes */
	uint64_t functions_lost;   /* not written: no room in the file, in all files or on the disk; too large */
	uint64_t moves;
	uint64_t bytes; /* of the file; 0: there is none */
};

/* -ENOMEM. The file is made when the first code comes. */
int xp_jit_dump_out_new(struct xp_jit_dump_out **out, const struct xp_jit_dump_out_options *options);
/* What the registry's observer calls: arg is the struct xp_jit_dump_out. */
void xp_jit_dump_out_load(void *arg, uint32_t index, const struct xp_jit_load *load);
void xp_jit_dump_out_move(void *arg, uint32_t index, uint64_t tsc, uint64_t old_start, uint64_t new_start,
			  uint64_t size);
/* Ends the file. 0 or the first error; either way the counts are right. To be called once, then only free. */
int xp_jit_dump_out_close(struct xp_jit_dump_out *out, uint64_t tsc, struct xp_jit_dump_out_counts *counts);
/* Its name in the directory, which perf.data's marker must end in; valid from the beginning. */
const char *xp_jit_dump_out_name(const struct xp_jit_dump_out *out);
void xp_jit_dump_out_free(struct xp_jit_dump_out *out);

#endif
