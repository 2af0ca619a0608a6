/* SPDX-License-Identifier: BSD-2-Clause */
/* One frame of a call chain, as found by the unwinder and counted by profiles. */
#ifndef XPROF_UNWIND_FRAME_H
#define XPROF_UNWIND_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/address_space.h"

struct xp_frame {
	uint64_t address;
	const struct xp_vma *vma; /* a copy; NULL: kernel if address is in the upper half, unknown otherwise */
	/* Not a return address, although not the leaf: for example, the user ip below the kernel's frames. */
	bool interrupted;
};

/*
 * Where the outermost frames of a call chain are in a call tree, for the next chain that begins with the same frames.
 * The code that caches the chain owns the path: it sets nodes and count, and lowers known when frames change. The tree
 * sets the rest (xp_profile_add()).
 */
struct xp_frame_path {
	const void *tree; /* NULL: none yet */
	uint32_t *nodes;  /* starts with the outermost frame */
	size_t count;	  /* capacity of nodes */
	size_t known;	  /* nodes that are filled in */
};

#endif
