/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The jitdump that a recording writes for the JIT code of one process image (jit-<pid>.dump). `perf inject --jit`
 * merges the jitdump with the perf.data of the same recording. The jitdump contains everything that the registry
 * reported to its observer, in the same order, with TSC times. It contains no unwinding data, because the call chains
 * in perf.data are already unwound.
 *
 * The first code creates the file under its final name. xprof only appends to the file, so an incomplete file is
 * readable. If the disk becomes full, the complete records remain, and the code that did not fit is counted.
 */
#ifndef XPROF_JIT_DUMP_OUT_H
#define XPROF_JIT_DUMP_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jit/code.h"

/* Maximum size of the file. The target decides how much code it makes, so there must be a limit. */
#define XP_JIT_DUMP_OUT_BYTES_MAX (1ull << 30)
/* Maximum size of all files of a recording together. */
#define XP_JIT_DUMP_OUT_ALL_BYTES_MAX (4ull << 30)
/*
 * Maximum size of code with unknown bytes. Such code is written as int3 instructions, because perf requires all bytes
 * of a function. Larger code with unknown bytes is not written.
 */
#define XP_JIT_DUMP_OUT_FILL_BYTES_MAX (1u << 20)

struct xp_jit_dump_out;

struct xp_jit_dump_out_options {
	int dir_fd; /* directory of the recording; owned by the caller */
	pid_t pid;  /* as in perf.data */
	unsigned int
	    image; /* 0 for the first image with this pid, 1 for the next (after exec, or when the pid is reused) */
	uint64_t start_tsc; /* start of the recording; older code gets this time */
	/*
	 * The number of bytes by which all files together may still grow, initially XP_JIT_DUMP_OUT_ALL_BYTES_MAX. A
	 * file may not become larger than this number. The variable must outlive this object.
	 */
	uint64_t *bytes_left;
};

struct xp_jit_dump_out_counts {
	uint64_t functions;
	uint64_t functions_filled; /* included in functions, but with int3 instead of the code bytes */
	/* not written: too large, or no space in the file, in the budget of all files, or on disk */
	uint64_t functions_lost;
	uint64_t moves;
	uint64_t bytes; /* size of the file; 0: there is no file */
};

/* The first code creates the file. Returns 0 or -ENOMEM. */
int xp_jit_dump_out_new(struct xp_jit_dump_out **out, const struct xp_jit_dump_out_options *options);
/* Callbacks for the registry's observer; arg is the struct xp_jit_dump_out. */
void xp_jit_dump_out_load(void *arg, uint32_t index, const struct xp_jit_load *load);
void xp_jit_dump_out_move(void *arg, uint32_t index, uint64_t tsc, uint64_t old_start, uint64_t new_start,
			  uint64_t size);
/*
 * Completes the file. Returns 0 or the first error; sets *counts in both cases. After this, call only
 * xp_jit_dump_out_free().
 */
int xp_jit_dump_out_close(struct xp_jit_dump_out *out, uint64_t tsc, struct xp_jit_dump_out_counts *counts);
/* Returns the name of the file in the directory; never NULL. The marker in perf.data must end in this name. */
const char *xp_jit_dump_out_name(const struct xp_jit_dump_out *out);
void xp_jit_dump_out_free(struct xp_jit_dump_out *out);

#endif
