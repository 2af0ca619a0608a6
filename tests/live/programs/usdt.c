// SPDX-License-Identifier: BSD-2-Clause
/*
 * Executes USDT probes after a SIGUSR1, and then waits until their tracer has disabled them. The notes are as from
 * <sys/sdt.h>. Prints "ready"; then the semaphore; then, within 20 s, the semaphore at the end.
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define PROBE(name, semaphore, arguments, ...)                                                                         \
	__asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.long 8, 992f-991f, 3\n"      \
			 ".asciz \"stapsdt\"\n991: .quad 990b, link_base, " semaphore                                  \
			 "\n.asciz \"mine\"\n.asciz \"" name "\"\n.asciz \"" arguments                                 \
			 "\"\n992: .balign 4\n.popsection" ::__VA_ARGS__)

__attribute__((section(".probes"))) volatile unsigned short enabled;
__attribute__((section(".stapsdt.base"))) const char link_base = 0;
static volatile long table[4] = { 100, 200, 300, 400 };

int main(void)
{
	sigset_t set;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	puts("ready");
	fflush(stdout);
	sigwait(&set, &number);
	for (int i = 0; i < 1000; i++) {
		volatile signed char small = (signed char)-i;

		PROBE("step", "enabled", "-4@%0 -1@%1 8@table+16(%%rip) 2@$7 8f@%%xmm0 4@(%2,%3,8)", "r"(i), "m"(small),
		      "r"(table), "r"((long)(i % 4)));
		if (i % 10 == 0)
			PROBE("tenth", "0", "");
	}
	printf("enabled by %d\n", enabled);
	fflush(stdout);
	for (int i = 0; i < 20000 && enabled; i++)
		usleep(1000);
	printf("enabled by %d\n", enabled);
	return 0;
}
