/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Has very many sleds: FUNCTIONS functions of one entry and one exit sled each, made by the assembler, as the compiler
 * makes them. Calls the first one again and again, and writes how often to a file:
 *   sleds PROGRESS
 * Linked with -Wl,-e,early it creates that file by its first instructions.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TEXT(number) #number
#define NUMBER(number) TEXT(number)

/* clang-format off */
__asm__(".text\n"
	"first:\n"
	".rept " NUMBER(FUNCTIONS) "\n"
	"1:	.byte 0xeb, 0x09, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n"
	"2:	.byte 0xc3, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n"
	".pushsection xray_instr_map, \"ao\", @progbits, .text\n"
	"3:	.quad 1b - 3b, 1b - 3b - 8\n"
	"	.byte 0, 1, 2\n"
	"	.zero 13\n"
	"3:	.quad 2b - 3b, 1b - 3b - 8\n"
	"	.byte 1, 1, 2\n"
	"	.zero 13\n"
	".popsection\n"
	".endr\n"
	"early:\n"
	"	movq 16(%rsp), %rdi\n"
	"	movl $0600, %esi\n"
	"	movl $" NUMBER(SYS_creat) ", %eax\n"
	"	syscall\n"
	"	jmp _start\n"
	".globl early\n");
/* clang-format on */

void first(void);

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_WRONLY | O_CREAT, 0644) : -1;
	char line[32];

	for (uint64_t calls = 1; fd >= 0; calls++) {
		first();
		usleep(1000);
		/* As in victim.c: number of rounds, and of wrong results. */
		if (pwrite(fd, line, (size_t)snprintf(line, sizeof(line), "%20lu 0\n", calls), 0) < 0)
			break;
	}
	return 1;
}
