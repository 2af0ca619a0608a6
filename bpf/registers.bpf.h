/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The user's registers by their numbers in x86 instructions: rax rcx rdx rbx rsp rbp rsi rdi r8..r15. */
#ifndef XPROF_REGISTERS_BPF_H
#define XPROF_REGISTERS_BPF_H

#include "common.bpf.h"

#define REGISTER_SP 4

/* Without the barrier, clang merges the loads into one from a computed address, which the verifier rejects. */
#define REGISTER(number, name)                                                                                         \
	case number:                                                                                                   \
		value = ctx->name;                                                                                     \
		barrier_var(value);                                                                                    \
		return value

/* Not inlined: the stack limit (common.bpf.h) is per function. */
static __noinline __u64 register_value(struct pt_regs *ctx, __u32 number)
{
	__u64 value;

	switch (number) {
		REGISTER(0, ax);
		REGISTER(1, cx);
		REGISTER(2, dx);
		REGISTER(3, bx);
		REGISTER(5, bp);
		REGISTER(6, si);
		REGISTER(7, di);
		REGISTER(8, r8);
		REGISTER(9, r9);
		REGISTER(10, r10);
		REGISTER(11, r11);
		REGISTER(12, r12);
		REGISTER(13, r13);
		REGISTER(14, r14);
		REGISTER(15, r15);
	default:
		return ctx->sp;
	}
}

#endif
