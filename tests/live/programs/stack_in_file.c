// SPDX-License-Identifier: BSD-2-Clause
/*
 * stack_in_file FILE: a thread waits with its stack pointer in a mapping of a file that it has never read. A reader of
 * its stack waits for the file system.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define BYTES 65536

int main(int argc, char **argv)
{
	int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	char *stack = fd < 0 ? MAP_FAILED : mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	if (stack == MAP_FAILED)
		return 1;
	puts("ready");
	fflush(stdout);
	/* A loop: a signal without a handler must not use the stack. */
	__asm__ volatile("mov %0, %%rsp\n"
			 "1: mov %1, %%eax\n"
			 "syscall\n"
			 "jmp 1b\n"
			 :
			 : "r"(stack + BYTES / 2), "i"(SYS_pause)
			 : "rax", "rcx", "r11", "memory");
	__builtin_unreachable();
}
