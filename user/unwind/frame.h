/* SPDX-License-Identifier: BSD-2-Clause */
/* One frame of a call chain, as found by the unwinder. */
#ifndef XPROF_UNWIND_FRAME_H
#define XPROF_UNWIND_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/address_space.h"

struct xp_frame {
	uint64_t address;
	const struct xp_vma *vma; /* a copy; NULL: kernel if address is in the upper half, unknown otherwise */
	/*
	 * True if the frame is neither the leaf nor a return address, for example the user ip after the kernel frames.
	 */
	bool interrupted;
};

#endif
