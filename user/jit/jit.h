/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The JIT code of one process image: the code that its JIT compiler made, over time (jit/code.h), from all available
 * sources. The runtime's own jitdump is preferred, because it has times. Without a jitdump, a perf map is read. GDB's
 * interface is always read.
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

/* State that all processes of a recording share. The caller sets the first members and zeroes the private members. */
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
	 * Requests a call of xp_jit_told() whenever the process executes this offset of the file. The caller limits the
	 * rate of these calls. Errors are ignored, because the sources are also polled every second. May be NULL.
	 */
	void (*watch)(void *arg, pid_t pid, int fd, uint64_t offset);
	void *arg;

	/* Private. */
	struct xp_target_memory *memory;
	struct xp_jit_file *files; /* by struct xp_file's index */
	size_t file_count;
	size_t file_room;
	struct xp_rate_limit
	    /* CPU time that xp_jit_refresh() and xp_jit_told() have used; the caller checks that some is left */
	    looking;
};
void xp_jits_free(struct xp_jits *jits);

struct xp_jit;

/*
 * Creates the JIT code of a process that runs now or ran a moment ago. image: number of the process image, from 1.
 * Returns 0 or -ENOMEM.
 */
int xp_jit_new(struct xp_jit **jit, struct xp_jits *jits, pid_t pid, unsigned int image);
void xp_jit_free(struct xp_jit *jit);

/*
 * Call this when the process has called execve() or has exited. From then on, only sources that are already open are
 * read.
 */
void xp_jit_over(struct xp_jit *jit);
/*
 * Polls all sources, for at most about 100 ms. space: the known part of the address space of the process. now_tsc: the
 * current time. Returns 1 if a source has more data, 0, or -ENOMEM.
 */
int xp_jit_refresh(struct xp_jit *jit, const struct xp_address_space *space, uint64_t now_tsc);
/*
 * Call this when the process has executed a watched offset, which means that its code changed at time tsc. Returns 0 or
 * -ENOMEM.
 */
int xp_jit_told(struct xp_jit *jit, const struct xp_address_space *space, uint64_t tsc);
/* Returns whether the process has exited, even if another process has its PID now. */
bool xp_jit_is_gone(const struct xp_jit *jit);
/*
 * Polls the sources a last time, when the process exits or the recording ends. Waits up to 5 s for a JVM. Completes the
 * jitdump and closes all sources. end_ns: the deadline (CLOCK_MONOTONIC). Returns 0, -ENOMEM, or an error of writing
 * the jitdump. A second call does nothing and returns the same value.
 */
int xp_jit_finish(struct xp_jit *jit, const struct xp_address_space *space, uint64_t now_tsc, uint64_t end_ns);
bool xp_jit_is_finished(const struct xp_jit *jit);

/*
 * Records a sampled address. If its function is unknown, the polls of the next 10 s search for the function. Only the
 * 16 newest such addresses are kept.
 */
void xp_jit_hit(struct xp_jit *jit, uint64_t address, uint64_t tsc);
/* Returns whether a sampled address is in an unknown function. */
bool xp_jit_has_unknown(const struct xp_jit *jit);

/*
 * Finds the unwind rule for this address at that time. Returns 0 or -errno: -ENOENT if there is no rule, -EAGAIN if the
 * next poll may find a rule. If the code was replaced after the last poll, this returns the rule of the old code.
 * Otherwise all samples in JIT code would have to wait up to a second for the next poll.
 */
int xp_jit_find_rule(const struct xp_jit *jit, uint64_t address, uint64_t tsc, struct xp_cfi_found *found);
/* Returns whether the last poll was before this time. Then code that is newer than the poll may be missing. */
bool xp_jit_is_behind(const struct xp_jit *jit, uint64_t tsc);

/*
 * Returns the number of known functions. xp_jit_refused() returns the number of functions that were rejected because a
 * limit was reached.
 */
uint32_t xp_jit_functions(const struct xp_jit *jit);
uint64_t xp_jit_refused(const struct xp_jit *jit);

/* Returns the name of the jitdump, or NULL without a jitdump. Sets *counts; xp_jit_finish() makes them final. */
const char *xp_jit_dump(const struct xp_jit *jit, struct xp_jit_dump_out_counts *counts);

#endif
