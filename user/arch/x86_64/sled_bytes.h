/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The machine code of XRay sleds on x86-64: what an unpatched one looks like and what can be read from it.
 *
 * Source of the format: LLVM's llvm/lib/Target/X86/X86MCInstLower.cpp (LowerPATCHABLE_*), and what XRay's runtime
 * writes there (compiler-rt/lib/xray/xray_x86_64.cpp).
 */
#ifndef XPROF_SLED_BYTES_H
#define XPROF_SLED_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/sled_table.h"

/* A sled and the longest conditional jump's opcode behind it. */
#define XP_SLED_WINDOW_BYTES (XP_SLED_BYTES_MAX + 2)

/* Length of a sled of this kind: 11, 17 or 22. */
size_t xp_sled_bytes(enum xp_sled_kind kind);

/*
 * Decodes the set-up code of an event sled: which registers hold its operands when the sled is reached.
 * bytes: XP_SLED_BYTES_MAX of them. False, and registers undefined, when this is no code that LLVM makes.
 */
bool xp_sled_operands(enum xp_sled_kind kind, const uint8_t *bytes, uint8_t registers[3]);

/*
 * True when a conditional jump stands behind the tail exit sled (clang before 19 puts such sleds before a conditional
 * tail call, and they run whether it is taken or not); *condition is then its condition code, 0..15.
 * bytes: XP_SLED_WINDOW_BYTES of them, from the sled's first.
 */
bool xp_sled_condition(const uint8_t *bytes, uint8_t *condition);

#endif
