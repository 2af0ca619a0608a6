/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Instructions that the stub's slots in memory need (stub_memory.c), tried out: an AMD guest advertised neither of them
 * (cpuid, AT_HWCAP2), although both can be executed there, and rdpid returned the number of the host's CPU.
 */
#ifndef XPROF_ARCH_X86_64_INSTRUCTIONS_H
#define XPROF_ARCH_X86_64_INSTRUCTIONS_H

#include <stdbool.h>

struct xp_instructions {
	bool rdfsbase; /* programs can execute it, and it returns their fs base */
	bool rdpid;    /* the same, and its low bits are the number of the CPU */
};

/* Executes each instruction in a child, which takes some 0.3 ms. A child that cannot be started has none of them. */
struct xp_instructions xp_instructions_try(void);

/* Why a program without rdfsbase cannot record calls in memory, with the remedy. */
#define XP_NO_RDFSBASE "programs cannot execute rdfsbase here: Linux 5.9 lets them, if not started with nofsgsbase"

#endif
