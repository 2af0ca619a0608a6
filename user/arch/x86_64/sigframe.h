/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes a signal frame for a stopped thread: rt_sigreturn(2) restores all registers and the signal mask from it. Works
 * on bytes only. If the thread was in a system call, the frame restarts the call, as after a stop without a signal. A
 * call with a timeout then waits for the full timeout again.
 *
 * Source of the format: struct rt_sigframe and struct ucontext (arch/x86/include/asm/sigframe.h), struct sigcontext_64
 * and struct _fpx_sw_bytes (arch/x86/include/uapi/asm/sigcontext.h), restore_sigcontext()
 * (arch/x86/kernel/signal_64.c), check_xstate_in_sigframe() (arch/x86/kernel/fpu/signal.c). Layout of the extended
 * state: Intel's manual, volume 1, chapter 13, and CPUID leaf 0xd.
 */
#ifndef XPROF_ARCH_X86_64_SIGFRAME_H
#define XPROF_ARCH_X86_64_SIGFRAME_H

#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#define XP_SIGFRAME_ALIGN 64
/* Offset in the frame to which the stack pointer must point when rt_sigreturn(2) is called. */
#define XP_SIGFRAME_SP 8
/* Enough for the state of today's CPUs, AMX included. */
#define XP_SIGFRAME_BYTES_MAX (12u << 10)

struct xp_sigframe_state {
	struct user_regs_struct registers;		/* PTRACE_GETREGS */
	uint64_t mask;					/* PTRACE_GETSIGMASK */
	uint8_t extended[XP_SIGFRAME_BYTES_MAX - 1024]; /* PTRACE_GETREGSET of NT_X86_XSTATE */
	size_t extended_bytes;
};

/* Returns the size of the frame for this state, or 0 if the extended state has an unknown form. */
size_t xp_sigframe_bytes(const struct xp_sigframe_state *state);
/* Makes the frame for this address in the process, a multiple of XP_SIGFRAME_ALIGN. */
void xp_sigframe_make(uint8_t *frame, uint64_t address, const struct xp_sigframe_state *state);

#endif
