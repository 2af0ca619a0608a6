/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How each thread's stack was walked last: by which words of it each frame led to its caller. What the next walk comes
 * upon again need not be looked up in tables again; see unwind.c. Of too many threads, or when all take too much
 * memory, the walks are forgotten.
 */
#ifndef XPROF_CHAINS_H
#define XPROF_CHAINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "profile/profile.h"
#include "target/address_space.h"

#define XP_CHAINS_BYTES_MAX (8u << 20)

/* What the step from a frame to its caller depended on, beside the frame's ip and sp, and the words that it read. */
enum xp_chain_way {
	XP_CHAIN_OTHER, /* on more than the following */
	XP_CHAIN_BY_SP, /* on nothing */
	XP_CHAIN_BY_BP, /* on its rbp */
};

#define XP_CHAIN_NOT_SAVED INT16_MIN

/* A frame. Its return address is the word below its caller's sp. */
struct xp_chain_step {
	uint64_t ip;
	uint64_t sp;
	uint64_t bp;		  /* it may be another one by now, unless the way is by it */
	const struct xp_vma *vma; /* of ip */
	int16_t saved;		  /* where its caller's rbp is, below the caller's sp; _NOT_SAVED: still in rbp */
	bool is_return;		  /* ip is a return address */
	uint8_t way;		  /* enum xp_chain_way */
};

struct xp_chain {
	pid_t tid; /* 0: nobody's */
	/* What was mapped; the steps are good for that alone. */
	const struct xp_space *space;
	uint64_t space_changed;
	struct xp_chain_step *steps; /* from the outermost frame on, without the leaf */
	size_t count;
	size_t room;
	struct xp_profile_path path;
};

#define XP_CHAINS 4096 /* by tid modulo: threads that share a place push each other out */

/* Zeroed: empty. */
struct xp_chains {
	struct xp_chain all[XP_CHAINS];
	size_t bytes;
};

/* The thread's last walk; without a step when there is none that is good for this space. */
struct xp_chain *xp_chains_get(struct xp_chains *chains, pid_t tid, const struct xp_space *space);
/*
 * The walk that is the last one from now on: of its steps the `same` outermost ones are those that are there; steps
 * has the others, in the order of the walk, the leaf's before them. count: of all without the leaf. For want of memory
 * it is empty.
 */
void xp_chains_put(struct xp_chains *chains, struct xp_chain *chain, size_t same, const struct xp_chain_step *steps,
		   size_t count);
void xp_chains_free(struct xp_chains *chains);

#endif
