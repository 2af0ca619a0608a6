/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The code that a patched function without sleds jumps to. A trampoline represents a window of the function (see
 * call_plan.h): it records the call, executes the instructions of the window and jumps to the code after the window.
 * Pure functions of addresses and bytes.
 *
 * Callers and callees of the function cannot see the trampoline. A moved call pushes the address after the original
 * call, so no return address is ever in a trampoline.
 *
 * The trampoline preserves all registers and flags: r10 is the static chain, and gcc (-fipa-ra) lets callers rely on
 * registers that a function does not change. It saves them below the stack pointer, where neither signal handlers nor
 * the stub's slot write. So the slot finds the same stack pointer as after a sled: one word below that of the function.
 * The function's own red zone is dead at entries and exits.
 */
#ifndef XPROF_ARCH_X86_64_TRAMPOLINE_H
#define XPROF_ARCH_X86_64_TRAMPOLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum xp_site_kind {
	XP_SITE_ENTRY,
	XP_SITE_RETURN,
	XP_SITE_TAIL,		  /* a jump to another function */
	XP_SITE_CONDITIONAL_TAIL, /* the same, if a condition is true */
};

/* An instruction of a window. The trampoline records a call before it. */
struct xp_trampoline_site {
	uint8_t offset; /* in the window */
	uint8_t kind;	/* enum xp_site_kind */
	uint32_t word;	/* for the slot, in r10d */
};

struct xp_trampoline {
	const uint8_t *code; /* the bytes of the window, before any patch */
	size_t bytes;
	uint64_t address;			/* address of the window in the process */
	uint64_t slots[2];			/* addresses of the slots that entries and exits call */
	const struct xp_trampoline_site *sites; /* in the order of their offsets; an entry before other sites */
	size_t site_count;
};

#define XP_TRAMPOLINE_BYTES_MAX 1024

/*
 * Encodes a trampoline for this address. Returns the number of bytes; 0 if the window cannot be decoded, the code would
 * be too long, or a target is out of reach.
 */
size_t xp_trampoline_encode(const struct xp_trampoline *trampoline, uint64_t at,
			    uint8_t bytes[XP_TRAMPOLINE_BYTES_MAX]);

/* Store a jump at `from` with a 32-bit or 8-bit displacement. Return false if the target is out of reach. */
bool xp_trampoline_jump(uint64_t from, uint64_t to, uint8_t bytes[5]);
bool xp_trampoline_short_jump(uint64_t from, uint64_t to, uint8_t bytes[2]);

#endif
