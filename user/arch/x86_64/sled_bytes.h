/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The machine code of XRay sleds on x86-64: recognizes and decodes unpatched sleds.
 *
 * Source of the format: LLVM's llvm/lib/Target/X86/X86MCInstLower.cpp (LowerPATCHABLE_*), and what XRay's runtime
 * writes there (compiler-rt/lib/xray/xray_x86_64.cpp).
 */
#ifndef XPROF_ARCH_X86_64_SLED_BYTES_H
#define XPROF_ARCH_X86_64_SLED_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum xp_sled_kind {
	XP_SLED_ENTRY = 0,
	XP_SLED_EXIT = 1,
	XP_SLED_TAIL_EXIT = 2,
	XP_SLED_ENTRY_ARGS = 3,
	XP_SLED_CUSTOM_EVENT = 4,
	XP_SLED_TYPED_EVENT = 5,
	XP_SLED_KINDS = 6,
};

#define XP_SLED_BYTES_MAX 22 /* the longest sled, a typed event's */

struct xp_sled {
	uint64_t vaddr;	      /* as linked */
	uint64_t file_offset; /* computed from the PT_LOAD that contains the sled, for a uprobe */
	uint32_t function_id; /* 1..function_count */
	uint8_t kind;	      /* enum xp_sled_kind */
	uint8_t always;	      /* the map's "always instrument" */
	bool intact;	      /* the file has an unpatched sled of this kind here, including an event's set-up code */
	bool conditional;     /* tail exit: a conditional jump follows (clang before 19), see condition */
	bool is_probed;	      /* site of a function without sleds where no window fits (call_plan.h) */
	uint8_t condition;    /* its condition code, low nibble of the opcode */
	uint8_t operands[3];  /* events: the registers, in x86 numbering, of (ptr, size) or (type, ptr, size) */
};

/* A sled and the opcode of the longest conditional jump after it. */
#define XP_SLED_WINDOW_BYTES (XP_SLED_BYTES_MAX + 2)

/* Length of a sled of this kind: 11, 17 or 22. */
size_t xp_sled_bytes(enum xp_sled_kind kind);

/*
 * Decodes the set-up code of an event sled: the registers that hold its operands when the sled is reached. bytes has
 * XP_SLED_BYTES_MAX bytes. Returns false, with registers undefined, if LLVM does not generate such code.
 */
bool xp_sled_operands(enum xp_sled_kind kind, const uint8_t *bytes, uint8_t registers[3]);

/*
 * Checks for a conditional jump after a tail exit sled. Clang before 19 puts such sleds before a conditional tail call,
 * and they run whether it is taken or not. Returns true if there is one and sets *condition to its condition code,
 * 0..15. bytes has XP_SLED_WINDOW_BYTES bytes from the sled's first.
 */
bool xp_sled_condition(const uint8_t *bytes, uint8_t *condition);

/*
 * True if bytes (XP_SLED_BYTES_MAX, from file or memory) begin like an unpatched sled of this kind. The runtime
 * restores only the first instruction when it unpatches, so only that instruction is compared.
 */
bool xp_sled_intact(enum xp_sled_kind kind, const uint8_t *bytes);
/*
 * Offset in an unpatched entry sled for a probe that is never hit: test %al,(%rax), two bytes inside the nop that the
 * sled's first instruction jumps over. The probe must not be on the nop itself (stub.h). XRay's runtime writes the
 * function id there; the byte that the kernel restores would only change that id. bytes: as above. Returns 0 if clang
 * has emitted another nop.
 */
size_t xp_sled_unused(const uint8_t *bytes);
const char *xp_sled_kind_name(enum xp_sled_kind kind);

#endif
