// SPDX-License-Identifier: BSD-2-Clause
#include "arch/x86_64/instructions.h"

#include <asm/prctl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch/x86_64/stub.h"
#include "base/child.h"

/* Exit codes of the child. */
enum { HAS_NONE, HAS_RDFSBASE, HAS_BOTH };

/* Number of CPUs to try rdpid on. If it returns the host's CPU number, the numbers match only by chance. */
#define CPUS_TRIED 4
#define CPU_MASK ((1u << XP_CALL_CPU_BITS) - 1)

static void end_without(int number)
{
	(void)number;
	_exit(HAS_NONE);
}

static void end_with_rdfsbase(int number)
{
	(void)number;
	_exit(HAS_RDFSBASE);
}

static bool rdfsbase_is_right(void)
{
	uint64_t fs_base, truth = 0;

	__asm__ volatile("rdfsbase %0" : "=r"(fs_base));
	return !syscall(SYS_arch_prctl, ARCH_GET_FS, &truth) && fs_base == truth;
}

static bool rdpid_is_right(void)
{
	cpu_set_t allowed, one;
	uint64_t cpu;
	int tried = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return false;
	for (int i = 0; i < CPU_SETSIZE && tried < CPUS_TRIED; i++) {
		if (!CPU_ISSET(i, &allowed))
			continue;
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		if (sched_setaffinity(0, sizeof(one), &one))
			return false;
		__asm__ volatile("rdpid %0" : "=r"(cpu));
		if ((cpu & CPU_MASK) != ((unsigned int)sched_getcpu() & CPU_MASK))
			return false;
		tried++;
	}
	return tried;
}

static int execute(void *unused)
{
	(void)unused;
	/* Without a handler for SIGILL, the kernel logs the death of the child. */
	signal(SIGILL, end_without);
	if (!rdfsbase_is_right())
		return HAS_NONE;
	signal(SIGILL, end_with_rdfsbase);
	return rdpid_is_right() ? HAS_BOTH : HAS_RDFSBASE;
}

struct xp_instructions xp_instructions_try(void)
{
	static const struct xp_child_options options = { 0 };
	struct xp_child child;
	int code = xp_child_start(&child, &options, execute, NULL);

	if (!code)
		code = xp_child_wait(child.pid, -1);
	return (struct xp_instructions){ .rdfsbase = code >= HAS_RDFSBASE, .rdpid = code == HAS_BOTH };
}
