/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The frame from which rt_sigreturn(2) gives a thread all of its registers and its signal mask back, made from outside:
 * pure, bytes only. A system call that the thread was in is begun again, as after a stop without a signal; one with a
 * timeout then waits for all of it.
 *
 * Source of the format: struct rt_sigframe and struct ucontext (arch/x86/include/asm/sigframe.h), struct sigcontext_64
 * and struct _fpx_sw_bytes (arch/x86/include/uapi/asm/sigcontext.h), restore_sigcontext()
 * (arch/x86/kernel/signal_64.c), check_xstate_in_sigframe() (arch/x86/kernel/fpu/signal.c). Layout of the extended
 * state: Intel's manual, volume 1, chapter 13, and CPUID leaf 0xd.
 */
#ifndef XPROF_SIGFRAME_H
#define XPROF_SIGFRAME_H

#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#define XP_SIGFRAME_ALIGN 64
/* Where the stack pointer must be for the call, counted from the frame's begin. */
#define XP_SIGFRAME_SP 8
/* Of all that CPUs have today, AMX included. */
#define XP_SIGFRAME_BYTES_MAX (12u << 10)

struct xp_sigframe_state {
	struct user_regs_struct registers;		/* PTRACE_GETREGS */
	uint64_t mask;					/* PTRACE_GETSIGMASK */
	uint8_t extended[XP_SIGFRAME_BYTES_MAX - 1024]; /* PTRACE_GETREGSET of NT_X86_XSTATE */
	size_t extended_bytes;
};

/* How long the frame of this state is; 0: its extended state is none that this module knows. */
size_t xp_sigframe_bytes(const struct xp_sigframe_state *state);
/* Makes it, for this address of the process, a multiple of XP_SIGFRAME_ALIGN. */
void xp_sigframe_make(uint8_t *frame, uint64_t address, const struct xp_sigframe_state *state);

#endif
