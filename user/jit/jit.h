/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The JIT code of one program run: what its JIT compiler made, by time (jit/code.h), from all available sources. The
 * runtime's own jitdump is preferred, because it has times. A perf map is read if there is no jitdump. GDB's interface
 * is read in any case.
 */
#ifndef XPROF_JIT_JIT_H
#define XPROF_JIT_JIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/rate_limit.h"
#include "jit/code.h"
#include "jit/dump_out.h"
#include "jit/src_gdb.h"
#include "target/address_space.h"

/* Maximum memory of all registries of a recording. */
#define XP_JIT_BYTES_LEFT (512ull << 20)

/* State that all processes of a recording share. Zeroed except for what the caller sets. */
struct xp_jits {
	/* Set by the caller. */
	const struct xp_clock *clock;
	uint64_t bytes_left;	  /* XP_JIT_BYTES_LEFT */
	bool jvm_attach;	  /* request perf maps from JVMs */
	bool with_dumps;	  /* also write jitdumps */
	uint64_t dump_bytes_left; /* XP_JIT_DUMP_OUT_ALL_BYTES_MAX if with_dumps */
	int dir_fd;		  /* directory of the jitdumps */
	uint64_t start_tsc;	  /* start of the recording */
	/*
	 * May be NULL. Makes the caller call xp_jit_told() whenever the process executes this offset of the file.
	 * Errors are not reported, because the sources are read every second anyway. The caller bounds how often it
	 * does this; the time does not count as time of a look.
	 */
	void (*watch)(void *arg, pid_t pid, int fd, uint64_t offset);
	void *arg;

	/* Private. */
	struct xp_target_memory *memory;
	struct xp_jit_file *files; /* by struct xp_file's index */
	size_t file_count;
	size_t file_room;
	struct xp_rate_limit
	    looking; /* time for xp_jit_refresh() and xp_jit_told(); the caller checks that some is left */
};
void xp_jits_free(struct xp_jits *jits);

struct xp_jit;

/*
 * The process is running, or was a moment ago. image: number of the program that it runs, from 1. Returns 0 or -ENOMEM.
 */
int xp_jit_new(struct xp_jit **jit, struct xp_jits *jits, pid_t pid, unsigned int image);
void xp_jit_free(struct xp_jit *jit);

/* The program or its process has ended: from this call on only open sources are read. */
void xp_jit_over(struct xp_jit *jit);
/*
 * Looks at all sources, for a tenth of a second or little more. space: the address space of the process, as far as it
 * is known. now_tsc: the time of the call. Returns 1 if a source has more data, 0, or -ENOMEM.
 */
int xp_jit_refresh(struct xp_jit *jit, const struct xp_address_space *space, uint64_t now_tsc);
/* The process reported at this time that its code changed. Returns 0 or -ENOMEM. */
int xp_jit_told(struct xp_jit *jit, const struct xp_address_space *space, uint64_t tsc);
/* Whether the process is gone, or its pid belongs to another process. */
bool xp_jit_is_gone(const struct xp_jit *jit);
/*
 * The last look, at the end of the process or of the recording; it waits some seconds for a JVM. Ends the jitdump and
 * closes all sources. end_ns: when to give up (CLOCK_MONOTONIC). Returns 0, -ENOMEM, or the errors of writing the
 * jitdump. A second call does nothing and returns the same.
 */
int xp_jit_finish(struct xp_jit *jit, const struct xp_address_space *space, uint64_t now_tsc, uint64_t end_ns);
bool xp_jit_is_finished(const struct xp_jit *jit);

/*
 * A sample hit this address at that time. If its function is not known, the next looks search for it, for some seconds;
 * only the newest such addresses count.
 */
void xp_jit_hit(struct xp_jit *jit, uint64_t address, uint64_t tsc);
/* Whether there are such addresses. */
bool xp_jit_has_unknown(const struct xp_jit *jit);

/*
 * Finds how to unwind from this address at that time. Returns 0 or -errno: -ENOENT if there is no rule, -EAGAIN if
 * there may be one after the next look. A rule may be out of date until then: that is better than the stacks of all
 * samples waiting for a second.
 */
int xp_jit_find_rule(const struct xp_jit *jit, uint64_t address, uint64_t tsc, struct xp_cfi_found *found);
/* Whether the sources have not been looked at since this time, so that newer code may be missing. */
bool xp_jit_is_behind(const struct xp_jit *jit, uint64_t tsc);

/* Known functions, and functions refused for lack of space. */
uint32_t xp_jit_functions(const struct xp_jit *jit);
uint64_t xp_jit_refused(const struct xp_jit *jit);

/* The name of the jitdump, and its counts after xp_jit_finish(). Returns NULL if none is written. */
const char *xp_jit_dump(const struct xp_jit *jit, struct xp_jit_dump_out_counts *counts);

#endif
