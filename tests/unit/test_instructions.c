// SPDX-License-Identifier: BSD-2-Clause
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit.h"

#include "arch/x86_64/instructions.h"

static int lie;

/* Replaces the C library's function. */
int sched_getcpu(void)
{
	unsigned int cpu = 0;

	syscall(SYS_getcpu, &cpu, NULL, NULL);
	return (int)cpu + lie;
}

/* Each CPU can execute the instructions that are reported as usable. */
TEST(test_works)
{
	const struct xp_instructions instructions = xp_instructions_try();
	cpu_set_t allowed, one;
	uint64_t value = 0;

	if (instructions.rdfsbase)
		__asm__ volatile("rdfsbase %0" : "=r"(value));
	assert_true(!instructions.rdfsbase || value);
	assert_false(sched_getaffinity(0, sizeof(allowed), &allowed));
	for (int cpu = 0; cpu < CPU_SETSIZE && instructions.rdpid; cpu++) {
		if (!CPU_ISSET(cpu, &allowed))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		assert_false(sched_setaffinity(0, sizeof(one), &one));
		__asm__ volatile("rdpid %0" : "=r"(value));
		assert_int_equal(value & 0xfff, cpu);
	}
	assert_false(sched_setaffinity(0, sizeof(allowed), &allowed));
}

/* A hypervisor that leaves the host's CPU number in TSC_AUX. */
TEST(test_rdpid_of_another_machine)
{
	struct xp_instructions before = xp_instructions_try(), after;

	lie = 1;
	after = xp_instructions_try();
	lie = 0;
	assert_int_equal(after.rdfsbase, before.rdfsbase);
	assert_false(after.rdpid);
}
