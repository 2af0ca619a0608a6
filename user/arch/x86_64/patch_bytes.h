/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The machine code of sleds that are patched from outside. Pure functions of addresses and bytes.
 *
 * Entry, tail exit and exit sleds become what XRay's own runtime makes of them (compiler-rt/lib/xray/xray_x86_64.cpp):
 * `mov $word,%r10d`, then a call of the stub. An exit sled jumps to the stub, whose `ret` then returns from the
 * function. An event sled lies in the middle of a function, where r10 may be live; the runtime's trampolines save it.
 * So an event sled pushes the two words, calls the stub and restores the stack pointer with `lea`, which preserves the
 * flags.
 *
 * Like the runtime, xprof first restores only the first instruction (see xp_sled_intact()). A thread that a signal
 * interrupted inside the sled still finds the rest of the sled and the stub when its handler returns. Later xprof
 * restores the other bytes where no thread can return (unpatch.h).
 */
#ifndef XPROF_ARCH_X86_64_PATCH_BYTES_H
#define XPROF_ARCH_X86_64_PATCH_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/x86_64/sled_bytes.h"
#include "arch/x86_64/stub.h"
#include "xprof/event.h"

/*
 * A conditional tail exit sled cannot be patched. If the jump after it is not taken, the function continues, and the
 * call would have overwritten its red zone and r10.
 */
static inline bool xp_patch_possible(const struct xp_sled *sled)
{
	return !sled->conditional && !sled->is_probed;
}

/* Returns the stub slot that a sled calls. args: entries record arguments (--args). */
enum xp_stub_slot xp_patch_slot(enum xp_sled_kind kind, bool args);

/*
 * Encodes a patched sled for this address of its process. slot: address of the stub slot. Returns the number of bytes,
 * all of which must be written (xp_sled_bytes()), or 0 if the stub is out of reach.
 */
size_t xp_patch_encode(const struct xp_sled *sled, uint32_t fn, uint64_t address, uint64_t slot,
		       uint8_t bytes[XP_SLED_BYTES_MAX]);

/* Like xp_patch_encode(), for an entry sled that only counts calls, with this counter of the stub at `stub`. */
size_t xp_patch_encode_count(const struct xp_sled *sled, uint32_t counter, uint64_t address, uint64_t stub,
			     uint8_t bytes[XP_SLED_BYTES_MAX]);

/* Decodes the branch target of a sled of xp_patch_encode(), from xp_sled_bytes() bytes. Returns false for others. */
bool xp_patch_decode(enum xp_sled_kind kind, const uint8_t *bytes, uint64_t address, uint64_t *slot);

/* Stores the bytes that unpatch a sled. Returns their number, 1 or 2. */
size_t xp_patch_head(enum xp_sled_kind kind, uint8_t bytes[2]);

/*
 * Decodes the former branch target of an unpatched sled from the bytes after its head. Returns false if there is none.
 */
bool xp_patch_decode_remains(enum xp_sled_kind kind, const uint8_t *bytes, uint64_t address, uint64_t *slot);

#endif
