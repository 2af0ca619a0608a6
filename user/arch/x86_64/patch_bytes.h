/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The machine code that a sled is given when it is patched from outside: pure, addresses and bytes only.
 *
 * Entry, tail exit and exit sleds become what XRay's own runtime makes of them (compiler-rt/lib/xray/
 * xray_x86_64.cpp): `mov $word,%r10d`, then a call of the stub, or for an exit a jump to it, whose `ret` is then the
 * function's. An event sled lies in the middle of a function, where r10 may be in use and the runtime's trampolines
 * save it: there the two words are pushed, the stub is called, and the stack pointer is put back by `lea`, which leaves
 * the flags alone.
 *
 * As with the runtime, only the first instruction is put back later (see xp_sled_intact()). A thread that a signal has
 * interrupted inside the sled finds the rest of it there, and the stub behind it, whenever its handler returns.
 */
#ifndef XPROF_PATCH_BYTES_H
#define XPROF_PATCH_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/sled_table.h"
#include "arch/x86_64/stub.h"
#include "xprof/event.h"

/*
 * A conditional tail exit sled cannot be patched: where the jump behind it is not taken the function goes on, and the
 * call would overwrite its red zone and r10.
 */
static inline bool xp_patch_possible(const struct xp_sled *sled)
{
	return !sled->conditional;
}

/* The slot of the stub that serves a sled; args: its entries record arguments (--args). */
enum xp_stub_slot xp_patch_slot(enum xp_sled_kind kind, bool args);

/*
 * The bytes of a patched sled at this address of its process. slot: the address of its slot. Returns their count
 * (xp_sled_bytes(), all of them are to be written), 0 when the stub is out of reach.
 */
size_t xp_patch_encode(const struct xp_sled *sled, uint32_t fn, uint64_t address, uint64_t slot,
		       uint8_t bytes[XP_SLED_BYTES_MAX]);

/*
 * The same of an entry sled that only has its calls counted, by this counter of the stub at `stub`.
 */
size_t xp_patch_encode_count(const struct xp_sled *sled, uint32_t counter, uint64_t address, uint64_t stub,
			     uint8_t bytes[XP_SLED_BYTES_MAX]);

/* Where the code of a sled that was patched this way leads; false: it was not. bytes: xp_sled_bytes() of them. */
bool xp_patch_decode(enum xp_sled_kind kind, const uint8_t *bytes, uint64_t address, uint64_t *slot);

/* What is written to put a sled back: the count of bytes, 1 or 2. */
size_t xp_patch_head(enum xp_sled_kind kind, uint8_t bytes[2]);

/* Where the code of a sled that has been put back led to, as what is behind its head still shows; false: nowhere. */
bool xp_patch_decode_remains(enum xp_sled_kind kind, const uint8_t *bytes, uint64_t address, uint64_t *slot);

#endif
