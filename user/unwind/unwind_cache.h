/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Caches the last walk of each thread: the stack words that led from each frame to its caller. The next walk reuses the
 * frames that have not changed; see unwind.c. If there are too many threads, or their walks use too much memory, walks
 * are evicted.
 */
#ifndef XPROF_UNWIND_UNWIND_CACHE_H
#define XPROF_UNWIND_UNWIND_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/address_space.h"

#define XP_UNWIND_CACHE_BYTES_MAX (8u << 20)

/*
 * The inputs of the step from a frame to its caller, in addition to the frame's ip and sp and the words that it reads.
 */
enum xp_step_needs {
	XP_STEP_OTHER, /* other inputs, too */
	XP_STEP_BY_SP, /* no other input */
	XP_STEP_BY_BP, /* the frame's rbp, too */
};

#define XP_STEP_NOT_SAVED INT16_MIN

/* A frame. Its return address is the word below its caller's sp. */
struct xp_cached_step {
	uint64_t ip;
	uint64_t sp;
	uint64_t bp;		  /* may have changed since, except with XP_STEP_BY_BP */
	const struct xp_vma *vma; /* contains ip */
	/* Offset of the caller's saved rbp from the caller's sp; XP_STEP_NOT_SAVED: still in rbp. */
	int16_t saved;
	bool is_return; /* ip is a return address */
	uint8_t method; /* enum xp_step_needs */
};

struct xp_cached_chain {
	pid_t tid; /* 0: unused */
	/* The state for which the steps are valid: the mappings. */
	const struct xp_address_space *space;
	uint64_t space_changed;
	bool has_code;		      /* some JIT code of the process has unwinding data */
	struct xp_cached_step *steps; /* from the outermost frame on, without the leaf */
	size_t count;
	size_t room;
};

#define XP_CHAINS 4096 /* indexed by tid modulo this; threads with the same index evict each other */

/* Empty if zeroed. */
struct xp_unwind_cache {
	struct xp_cached_chain all[XP_CHAINS];
	size_t bytes;
};

/* Returns the thread's last walk. It has no steps if it is not valid for this space and has_code. */
struct xp_cached_chain *xp_unwind_cache_get(struct xp_unwind_cache *chains, pid_t tid,
					    const struct xp_address_space *space, bool has_code);
/*
 * Replaces the last walk by a new one. The outermost `same` steps are already stored; `steps` contains the leaf's step
 * and then the others in the order of the walk. count: all steps without the leaf's. If out of memory, the cached walk
 * becomes empty.
 */
void xp_unwind_cache_store(struct xp_unwind_cache *chains, struct xp_cached_chain *chain, size_t same,
			   const struct xp_cached_step *steps, size_t count);
void xp_unwind_cache_free(struct xp_unwind_cache *chains);

#endif
