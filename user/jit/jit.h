/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The code of one program's run that belongs to no file: what its JIT compiler made, by time (jit_code.h), from all
 * sources that tell of it. A runtime's own jitdump is preferred, since it has times; a perf map is read where there is
 * none; GDB's interface is looked at in any case.
 */
#ifndef XPROF_JIT_H
#define XPROF_JIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/rate_limit.h"
#include "base/clock.h"
#include "jit/code.h"
#include "jit/dump_out.h"
#include "jit/src_gdb.h"
#include "profile/profile.h"
#include "target/address_space.h"
#include "elf/symbol_file.h"

/* All registries of a recording take so much memory at most. */
#define XP_JIT_BYTES_LEFT (512ull << 20)

/* What all processes of a recording share. Zeroed but for what the caller sets. */
struct xp_jits {
	/* Set by the caller. */
	const struct xp_clock *clock;
	uint64_t bytes_left;	  /* XP_JIT_BYTES_LEFT */
	bool jvm_attach;	  /* ask JVMs for perf maps */
	bool with_dumps;	  /* write jitdumps, too */
	uint64_t dump_bytes_left; /* then: XP_JIT_DUMP_OUT_ALL_BYTES_MAX */
	bool to_the_letter;	  /* of their specification, which perf does not take */
	int dir_fd;		  /* there */
	uint64_t start_tsc;	  /* of the recording */
	/*
	 * Or NULL: lets the caller know, by xp_jit_told(), whenever the process runs this place of the file.
	 * Errors are not heard of: it is looked at every second anyway. Its time is the caller's, who bounds how often
	 * he does it, and is no part of what looking may take.
	 */
	void (*watch)(void *arg, pid_t pid, int fd, uint64_t offset);
	void *arg;

	/* Not the caller's. */
	struct xp_target_memory *memory;
	struct xp_jit_file *files; /* by struct xp_file's index */
	size_t file_count;
	struct xp_allowance
	    looking; /* what xp_jit_refresh() and xp_jit_told() take; who calls them asks whether any is left */
};
void xp_jits_free(struct xp_jits *jits);

struct xp_jit;

/* The process is running, or was a moment ago. image: number of the program that it runs, from 1 on. -ENOMEM. */
int xp_jit_new(struct xp_jit **jit, struct xp_jits *jits, pid_t pid, unsigned int image);
void xp_jit_free(struct xp_jit *jit);

/* The program is over, or its process is gone: from now on only what is open already is read. */
void xp_jit_over(struct xp_jit *jit);
/*
 * Looks at all sources, for a tenth of a second or little more. space: what the process has mapped, as far as it is
 * known. now_tsc: the time of the call. 1: a source has more to tell; 0; -ENOMEM.
 */
int xp_jit_refresh(struct xp_jit *jit, const struct xp_space *space, uint64_t now_tsc);
/* The process said at this time that its code changed. -ENOMEM. */
int xp_jit_told(struct xp_jit *jit, const struct xp_space *space, uint64_t tsc);
/* Whether the process is gone, as far as that takes to be told. */
bool xp_jit_is_gone(const struct xp_jit *jit);
/*
 * The last look, at the end of the process or of the recording; a JVM is waited for some seconds. Ends the jitdump, and
 * closes all that is open. end_ns: when patience ends (CLOCK_MONOTONIC). -ENOMEM; those of writing the jitdump. A
 * second call does nothing but say the same.
 */
int xp_jit_finish(struct xp_jit *jit, const struct xp_space *space, uint64_t now_tsc, uint64_t end_ns);
bool xp_jit_is_finished(const struct xp_jit *jit);

/*
 * Which function a frame is in that was sampled at this time: the frame then has its address in the profile's range for
 * JIT functions (profile.h). is_return: its address is the one behind a call. 0; -ENOENT nobody knows; -EAGAIN it may
 * be known after the next look.
 */
int xp_jit_name(struct xp_jit *jit, struct xp_profile_frame *frame, bool is_return, uint64_t tsc);

/* Functions known, and functions for which there was no room. */
uint32_t xp_jit_functions(const struct xp_jit *jit);
uint64_t xp_jit_refused(const struct xp_jit *jit);

/* The functions that frames were named after, in the order of their places, which are their addresses. */
size_t xp_jit_syms(const struct xp_jit *jit, const struct xp_sym **syms);

/* The jitdump's name, and what is in it after xp_jit_finish(). NULL: none is written. */
const char *xp_jit_dump(const struct xp_jit *jit, struct xp_jit_dump_out_counts *counts);

#endif
