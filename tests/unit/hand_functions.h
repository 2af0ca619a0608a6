/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions in assembler that are part of the test program, and a plan for this program. The assembler makes their
 * unwind entries.
 */
#ifndef XPROF_TESTS_HAND_FUNCTIONS_H
#define XPROF_TESTS_HAND_FUNCTIONS_H

#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include "functions/call_plan.h"
#include "unit.h"

/* A function without padding on either side; the next one has a target at its first byte. */
#define FUNCTION(name, body)                                                                                           \
	extern const uint8_t name[];                                                                                   \
	__asm__(".pushsection .text.plans,\"ax\",@progbits\n" #name ":\n.cfi_startproc\n" body                         \
		"\n.cfi_endproc\n.popsection")
#define PADDING(bytes) __asm__(".pushsection .text.plans,\"ax\",@progbits\n.nops " #bytes "\n.popsection")
#define BYTES(bytes) __asm__(".pushsection .text.plans,\"ax\",@progbits\n.byte " bytes "\n.popsection")
#define DATA(text) __asm__(".pushsection .data.rel.ro.plans,\"aw\",@progbits\n" text "\n.popsection")
#define TABLE(text) __asm__(".pushsection .rodata.plans,\"a\",@progbits\n.p2align 2\n" text "\n.popsection")

FUNCTION(three_bytes, "xor %eax, %eax; ret");
PADDING(2);
FUNCTION(three_bytes_packed, "xor %eax, %eax; ret");
FUNCTION(padded, "mov %edi, %eax; call three_bytes; ret");
PADDING(4);
FUNCTION(backwards, "push %rbx; push %rbp; mov %edi, %ebx; call three_bytes; mov %ebx, %eax; pop %rbp; pop %rbx; ret");
FUNCTION(target_before_return,
	 "push %rbx; mov %edi, %ebx; call three_bytes; test %ebx, %ebx; js 1f; call three_bytes; 1: pop %rbx; ret");
FUNCTION(target_is_return, "push %rbx; mov %edi, %ebx; pop %rbx; js 1f; call three_bytes; 1: ret");
FUNCTION(with_host, "push %rbx; mov %rdi, %rbx; mov %rdi, %rsi; call three_bytes; mov %rbx, %rax;"
		    "add $100, %rax; add $100, %rax; js 1f; call three_bytes; 1: pop %rbx; ret");
FUNCTION(pushed, "push %rbx; mov %rdi, %rbx; call three_bytes; add $100, %eax; pop %rbx; ret");
FUNCTION(loads_from_stack, "mov 8(%rsp), %eax; push %rcx; pop %rcx; ret");
PADDING(4);
FUNCTION(loads_variable, "mov target_of_tail(%rip), %eax; ret");
PADDING(4);
FUNCTION(loads_thread_variable, "mov %fs:40, %rax; ret");
PADDING(4);
FUNCTION(computes_address, "lea 8(%rdi,%rsi,4), %rax; ret");
PADDING(4);
FUNCTION(loads_through_frame, "mov 8(%rbp), %rax; nop; ret");
PADDING(4);
FUNCTION(loads_through_r12, "mov (%r12), %rax; nop; ret");
PADDING(4);
FUNCTION(divides, "mov %edi, %eax; div %esi; nop; ret");
PADDING(4);
FUNCTION(adds_floats, "addsd %xmm1, %xmm0; nop; ret");
PADDING(4);
FUNCTION(copies_string, "mov %edx, %ecx; rep movsb; nop; ret");
PADDING(4);
FUNCTION(loads_at_index, "mov (%rsp,%rdi), %eax; nop; nop; ret");
PADDING(4);
FUNCTION(tail, "add $1, %rdi; jmp three_bytes");
FUNCTION(taken_tail, "test %edi, %edi; .byte 0x0f, 0x88; .long three_bytes - . - 4; mov %edi, %eax; add $1, %eax; ret");
FUNCTION(short_taken_tail, "cmp $100, %edi; js after_it; mov %edi, %eax; add $1, %eax; ret");
FUNCTION(after_it, "mov %edi, %eax; add $100, %eax; ret");
FUNCTION(pointer_tail, "mov 8(%rdi), %rax; add $16, %rdi; jmp *%rax");
FUNCTION(plt_tail, "test %edi, %edi; js 1f; mov %edi, %eax; add $1, %eax; ret; 1: jmp *target_of_tail(%rip)");
DATA("target_of_tail: .quad three_bytes");
FUNCTION(loop, "sub $1, %edi; jnz loop; mov %edi, %eax; add $100, %eax; ret");
FUNCTION(loop_behind_endbr, "endbr64; 1: sub $1, %edi; jnz 1b; mov %edi, %eax; add $100, %eax; ret");
FUNCTION(endbr, "endbr64; mov %edi, %eax; add $100, %eax; ret");
FUNCTION(undecoded, "mov %edi, %eax; .byte 0x06; ret");
FUNCTION(cut, "mov %edi, %eax; ret; .byte 0x48, 0x8b");
FUNCTION(one_of_two, "call two_of_two; mov %edi, %eax; in_one: add $100, %eax; jmp in_two");
FUNCTION(two_of_two, "call one_of_two; mov %edi, %eax; in_two: add $100, %eax; jmp in_one");
FUNCTION(leaves, "mov %edi, %eax; jmp no_entry");
BYTES("0xc3, 0xc3\nno_entry: .byte 0x31, 0xc0, 0xc3");
FUNCTION(ambiguous, "mov %edi, %eax; jmp *(%rsi); mov %edi, %eax; 1: add $100, %eax; ret;"
		    ".pushsection .data.rel.ro.plans,\"aw\"; .quad 1b; .popsection");
FUNCTION(has_label, "push %rbx; .cfi_adjust_cfa_offset 8; mov %rsi, %rbx; jmp *(%rsi); 1: add $1, %eax;"
		    "mov %ebx, %eax; pop %rbx; .cfi_adjust_cfa_offset -8; ret;"
		    ".pushsection .data.rel.ro.plans,\"aw\"; .quad 1b; .popsection");
/* The case is the add. The bound is not checked. */
FUNCTION(with_switch, "lea cases(%rip), %rdx; movslq (%rdx,%rdi,4), %rax; add %rdx, %rax; jmp *%rax;"
		      "mov %edi, %eax; one_case: add $1, %eax; ret");
TABLE("cases: .long one_case - cases; .long one_case - cases; .long 1");
/* The same without a jump table: the unwind row of the jump may apply to the add, but not to the pop. */
FUNCTION(unknown_switch, "mov %rdi, %rcx; mov %rsi, %rax; push %rbx; .cfi_adjust_cfa_offset 8; test %edi, %edi; js 1f;"
			 "movslq (%rdx,%rdi,4), %rax; add %rdx, %rax; jmp *%rax;"
			 "1: mov %edi, %eax; add $1, %eax; pop %rbx; .cfi_adjust_cfa_offset -8; ret");
FUNCTION(unknown_switch_pops, "mov %rdi, %rcx; mov %rsi, %rax; push %r12; .cfi_adjust_cfa_offset 8; push %r13;"
			      ".cfi_adjust_cfa_offset 8; test %edi, %edi; js 1f; movslq (%rdx,%rdi,4), %rax;"
			      "add %rdx, %rax; jmp *%rax; 1: mov %edi, %eax; pop %r13; .cfi_adjust_cfa_offset -8;"
			      "pop %r12; .cfi_adjust_cfa_offset -8; ret");
FUNCTION(calls_first, "push %rax; call three_bytes; pop %rcx; add $1, %eax; nop; ret");
FUNCTION(system_call, "syscall; mov %edi, %eax; add $1, %eax; ret");
FUNCTION(indirect_call, "push %rax; call *%rdi; pop %rcx; add $1, %eax; add $1, %eax; ret");
FUNCTION(short_loop, "mov %edi, %ecx; 1: loop 1b; mov %edi, %eax; add $1, %eax; ret");
FUNCTION(has_cold, "push %rbx; .cfi_adjust_cfa_offset 8; test %edi, %edi; js cold; pop %rbx; .cfi_adjust_cfa_offset -8;"
		   "add $1, %eax; ret");
FUNCTION(cold, ".cfi_adjust_cfa_offset 8; call three_bytes; pop %rbx; .cfi_adjust_cfa_offset -8; add $1, %eax; ret");
/* No pointer has the address of leaf_cold. */
FUNCTION(leaf_with_cold, "test $1000, %edi; js leaf_cold; 1: add $1000, %eax; ret; back = 1b");
FUNCTION(leaf_cold, "add $100, %edi; jmp back");
/* Its first case cannot occur: clang's table has the end of the function for that case. */
FUNCTION(switch_with_gap, "lea gap_cases(%rip), %rdx; movslq (%rdx,%rdi,4), %rax; add %rdx, %rax; jmp *%rax;"
			  "mov %edi, %eax; .Lgap_case: add $1, %eax; ret; .Lgap_end:");
TABLE("gap_cases: .long .Lgap_end - gap_cases; .long .Lgap_case - gap_cases; .long 1");
FUNCTION(has_data, "mov %edi, %eax; add $1000, %eax; ret; .byte 0x48, 0xc7, 0xc0, 1, 2, 3, 4, 0xc3");
/* The second case is in no jump table. */
FUNCTION(has_unknown_case, "push %rbx; .cfi_adjust_cfa_offset 8; lea few_cases(%rip), %rdx; movslq (%rdx,%rdi,4), %rax;"
			   "add %rdx, %rax; jmp *%rax; .Lfew_case: mov %edi, %eax; jmp 1f; mov %esi, %eax; jmp 1f;"
			   "mov %edx, %eax; 1: mov %edi, %ecx; add $1, %eax; pop %rbx; .cfi_adjust_cfa_offset -8; ret");
TABLE("few_cases: .long .Lfew_case - few_cases; .long 1");
FUNCTION(jumps_behind_lock, "test $1000, %edi; je 1f; .byte 0xf0; 1: incl (%rsi); ret");
FUNCTION(has_named_cold, "test $1000, %edi; js has_named.cold; add $1000, %eax; ret");
FUNCTION(named_cold, "has_named.cold: add $1000, %ecx; ret");
FUNCTION(last, "ret");

static struct xp_call_plan plan;
static uint64_t base;

static int find_base(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	base = info->dlpi_addr; /* the test program is the first object */
	return 1;
}

static void make_plan(void)
{
	static struct xp_elf_file file;
	int fd;

	if (plan.function_count)
		return;
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	dl_iterate_phdr(find_base, NULL);
	assert_int_equal(xp_elf_file_fd(&file, fd), 0);
	assert_int_equal(xp_call_plan_make(&plan, &file), 0);
	xp_elf_file_close(&file);
	close(fd);
}

static const struct xp_call_plan_function *find(const uint8_t *code)
{
	make_plan();
	for (size_t i = 0; i < plan.function_count; i++)
		if (plan.functions[i].vaddr + base == (uintptr_t)code)
			return &plan.functions[i];
	return NULL;
}

#endif
