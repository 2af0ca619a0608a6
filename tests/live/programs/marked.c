// SPDX-License-Identifier: BSD-2-Clause
/*
 * A server of 200 requests, one at a time: the acceptor passes them to the worker. USDT probes mark them: queued and
 * answered have the number of the request, begin and end are hit by the worker. Each 20th request sleeps 10 ms.
 */
#include <unistd.h>

#include "go.h"
#include "fault_threads.h"

#define PROBE(name, number)                                                                                            \
	__asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.long 8, 992f-991f, 3\n"      \
			 ".asciz \"stapsdt\"\n991: .quad 990b, link_base, 0\n.asciz \"shop\"\n.asciz \"" name          \
			 "\"\n.asciz \"-4@%0\"\n992: .balign 4\n.popsection" ::"r"(number))

__attribute__((section(".stapsdt.base"))) const char link_base = 0;
static int queue[2], answers[2];

TRACED static void load_block(int request)
{
	sleep_ms(request % 20 == 10 ? 10 : 0);
	__asm__ volatile("");
}

UNTRACED static void *worker(void *arg)
{
	int request;

	while (read(queue[0], &request, sizeof(request)) == sizeof(request)) {
		PROBE("begin", request);
		load_block(request);
		PROBE("end", request);
		PROBE("answered", request);
		if (write(answers[1], &request, 1) != 1)
			abort();
	}
	return arg;
}

UNTRACED int main(int argc, char **argv)
{
	char answer;

	if (pipe(queue) || pipe(answers))
		return 1;
	start(worker, "worker");
	wait_for_go(argc, argv);
	for (int i = 0; i < 200; i++) {
		PROBE("queued", i);
		if (write(queue[1], &i, sizeof(i)) != sizeof(i) || read(answers[0], &answer, 1) != 1)
			abort();
		sleep_ms(1);
	}
	puts("done");
	fflush(stdout);
	wait_for_go(argc, argv);
	return 0;
}
