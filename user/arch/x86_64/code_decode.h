/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decodes the instructions of a function: what each one does to the flow of control, and what must change if it is
 * moved. Bytes in, no process. libzydis decodes; this file keeps its types from the rest of xprof.
 *
 * Sources: Intel SDM, volume 2 (instruction formats, NOP, ENDBR64, XBEGIN); System V ABI for x86-64, figure 3.36
 * (register numbers).
 */
#ifndef XPROF_ARCH_X86_64_CODE_DECODE_H
#define XPROF_ARCH_X86_64_CODE_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_CODE_BYTES_MAX 15 /* maximum length of an instruction */

enum xp_code_kind {
	XP_CODE_NONE,
	XP_CODE_PLAIN,	  /* continues with the next instruction; can be moved */
	XP_CODE_NOP,	  /* the same, and has no effect */
	XP_CODE_ENDBR,	  /* endbr64 */
	XP_CODE_FIXED,	  /* must not be moved: system calls, indirect calls, loop, jrcxz, xbegin, far branches */
	XP_CODE_STOP,	  /* never continues: int3, ud2, hlt */
	XP_CODE_RET,	  /* near return */
	XP_CODE_JUMP,	  /* jmp rel8 or rel32 */
	XP_CODE_BRANCH,	  /* jcc rel8 or rel32 */
	XP_CODE_CALL,	  /* call rel32 */
	XP_CODE_INDIRECT, /* jmp through a register or memory */
	XP_CODE_KINDS,
};

struct xp_code {
	uint8_t kind; /* enum xp_code_kind */
	uint8_t bytes;
	uint8_t rip_at; /* offset of the displacement of a RIP-relative operand; 0: none */
	bool is_lea;	/* lea of a RIP-relative operand */
	bool has_target;
	bool may_fault;	   /* raises SIGSEGV, SIGBUS, SIGFPE or SIGILL with some operands; not for the stack and
			    * RIP-relative    memory */
	uint64_t target;   /* target of a direct jump or call */
	uint64_t address;  /* address of the RIP-relative operand */
	uint64_t constant; /* an immediate operand that is no target; 0: none */
};

/* Decodes the instruction at the front of code, which is at address `at`. Returns false if there is none. */
bool xp_code_decode(const uint8_t *code, size_t size, uint64_t at, struct xp_code *decoded);

/* No register in struct xp_code_place. */
#define XP_CODE_NO_REG 0xff

/* A register, or a place in memory that is not RIP-relative. */
struct xp_code_place {
	bool is_memory;
	uint8_t reg; /* the register, or the base */
	uint8_t index;
	uint8_t scale;
	int64_t offset;
};

/* Returns the register or memory place with the target of the jmp of kind XP_CODE_INDIRECT at the front of code. */
bool xp_code_jump_place(const uint8_t *code, size_t size, struct xp_code_place *place);

enum xp_code_write {
	XP_CODE_WRITES_NOT,
	XP_CODE_WRITES_SUM,  /* add reg, other */
	XP_CODE_WRITES_LOAD, /* mov reg, memory: see place */
	XP_CODE_WRITES_ELSE,
};

/* Returns how the instruction at the front of code writes a register (0 to 15, as in its encoding). */
enum xp_code_write xp_code_writes(const uint8_t *code, size_t size, uint8_t reg, struct xp_code_place *place);

#endif
