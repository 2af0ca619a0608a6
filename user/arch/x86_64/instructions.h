/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Executes the instructions that the stub needs to record in memory (stub_memory.c), to learn whether they work. Flags
 * are unreliable: an AMD guest advertised neither rdfsbase nor rdpid (cpuid, AT_HWCAP2) but could execute both, and its
 * rdpid returned the CPU number of the host.
 */
#ifndef XPROF_ARCH_X86_64_INSTRUCTIONS_H
#define XPROF_ARCH_X86_64_INSTRUCTIONS_H

#include <stdbool.h>

struct xp_instructions {
	bool rdfsbase; /* programs can execute it, and it returns their fs base */
	bool rdpid;    /* the same, and its low bits are the CPU number */
};

/*
 * Executes each instruction in a child, which takes about 0.3 ms. If the child cannot be started, no instruction works.
 */
struct xp_instructions xp_instructions_try(void);

/* Reason and remedy to print if programs cannot execute rdfsbase, and so cannot record calls in memory. */
#define XP_NO_RDFSBASE "programs cannot execute rdfsbase here: Linux 5.9 lets them, if not started with nofsgsbase"

#endif
