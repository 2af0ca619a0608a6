// SPDX-License-Identifier: BSD-2-Clause
/*
 * The slots of the stub that record a call in memory, without the kernel (call_ring.h). A slot ends in a nop with a
 * uprobe, as XP_STUB_CALL has it: a thread without a ring, or with a full one, falls through to it. The BPF program
 * finds the fs base of the thread in rax, and three registers on the stack (stub_memory_call in bpf/sled.bpf.c). A
 * child of fork() goes to another nop before anything is pushed, as in XP_STUB_CALL: it has no rings (MADV_DONTFORK).
 *
 * The code preserves all registers but r10 and the flags, even r11: some calling conventions pass arguments in it. It
 * reserves a record with xadd, without a lock prefix: that is one instruction, so no signal handler of the thread, the
 * only other writer, can come in between. Between the test of the limit and the xadd, one can: XP_CALL_RING_MARGIN. The
 * store of the word commits the record. x86 keeps the order of stores.
 *
 * An entry and an exit cost 34 ns here, about half of it for rdtsc. With a uprobe on the nop, they cost 700 ns.
 */
#include <string.h>

#include "arch/x86_64/stub.h"

#define TEXT(number) #number
#define NUMBER(number) TEXT(number)

_Static_assert(XP_CALL_SLOT_BYTES == 1 << 6 && XP_CALL_RECORD_BYTES == 1 << 4, "as in the code");

/* clang-format off */
__asm__(".pushsection .rodata\n"
	".balign 64\n"
	"xp_stub_memory_code:\n"
	".set stub, xp_stub_memory_code - " NUMBER(XP_STUB_MEMORY) "\n"
	".set number, 0\n"

	".macro memory_slot rdpid:req, nop:vararg\n"
	"	.org xp_stub_memory_code + number * " NUMBER(XP_STUB_MEMORY_BYTES) ", 0xcc\n"
	"	.set number, number + 1\n"
	"0:	cmpb $0, stub + " NUMBER(XP_STUB_FLAG) "(%rip)\n"
	"	je 5f\n"
	"	push %r11\n"
	"	push %rax\n"
	"	push %rdx\n"
	/* Two slots are possible: the one that the hash of the key says, and its neighbor. */
	"	rdfsbase %rax\n"
	"	imul $" NUMBER(XP_CALL_SLOT_FACTOR) ", %eax, %r11d\n"
	"	shr $(32 - " NUMBER(XP_CALL_SLOT_BITS) "), %r11d\n"
	"	shl $6, %r11\n"
	"	lea stub + " NUMBER(XP_STUB_SLOTS_TABLE) "(%rip), %rdx\n"
	"	add %rdx, %r11\n"
	"	cmp %rax, (%r11)\n"		/* key */
	"	jne 2f\n"
	"1:	mov 8(%r11), %rdx\n"		/* head */
	"	cmp 16(%r11), %rdx\n"		/* limit */
	"	jae 3f\n"
	"	mov $1, %eax\n"
	"	xadd %rax, 8(%r11)\n"
	"	and 32(%r11), %rax\n"		/* mask */
	"	shl $4, %rax\n"
	"	add 24(%r11), %rax\n"		/* ring */
	"	mov %rax, %r11\n"
	"	rdtsc\n"
	"	shl $32, %rdx\n"
	"	or %rdx, %rax\n"
	"	shl $" NUMBER(XP_CALL_CPU_BITS) ", %rax\n"
	/* The number of the CPU: the vDSO's getcpu() reads it so (vdso_read_cpunode(), arch/x86/include/asm/segment.h). */
	"	.if \\rdpid\n"
	"	rdpid %rdx\n"
	"	.else\n"
	"	mov $0x7b, %edx\n"
	"	lsl %edx, %edx\n"
	"	.endif\n"
	"	and $((1 << " NUMBER(XP_CALL_CPU_BITS) ") - 1), %edx\n"
	"	or %rdx, %rax\n"
	"	mov %rax, (%r11)\n"
	"	lea 24(%rsp), %rax\n"
	"	shr $3, %rax\n"
	"	shl $32, %rax\n"
	"	or %r10, %rax\n"
	"	mov %rax, 8(%r11)\n"
	"6:	pop %rdx\n"
	"	pop %rax\n"
	"	pop %r11\n"
	"	ret\n"
	"5:	nop\n"
	"	ret\n"
	"2:	xor $64, %r11\n"
	"	cmp %rax, (%r11)\n"
	"	je 1b\n"
	"	xor %edx, %edx\n"
	"3:	rdfsbase %rax\n"
	"4:	.byte \\nop\n"
	"7:	pop %rdx\n"
	"	pop %rax\n"
	"	pop %r11\n"
	"	ret\n"
	".pushsection .rodata.xp_stub_memory_places, \"a\"\n"
	"	.byte 6b - 0b, 2b - 0b, 7b - 0b, 4b - 0b, 5b - 0b\n"
	".popsection\n"
	".endm\n"

	".pushsection .rodata.xp_stub_memory_places, \"a\"\n"
	"xp_stub_memory_places:\n"
	".popsection\n"

	/* In the order of enum xp_stub_form, and of `rdpid` in each. */
	"	memory_slot 0, 0x0f, 0x1f, 0x44, 0x00, 0x00\n"
	"	memory_slot 1, 0x0f, 0x1f, 0x44, 0x00, 0x00\n"
	"	memory_slot 0, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00\n"
	"	memory_slot 1, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00\n"
	"	memory_slot 0, 0x90\n"
	"	memory_slot 1, 0x90\n"
	"	.org xp_stub_memory_code + number * " NUMBER(XP_STUB_MEMORY_BYTES) ", 0xcc\n"
	".purgem memory_slot\n"
	".popsection\n");
/* clang-format on */

#define MEMORY_SLOTS (2 * XP_STUB_FORMS)
extern const uint8_t xp_stub_memory_code[MEMORY_SLOTS * XP_STUB_MEMORY_BYTES];
/* Offsets in a slot: what the assembler knows. */
extern const struct places {
	uint8_t pops;	    /* of the path that records */
	uint8_t other_path; /* where the path that does not record begins, with all registers pushed */
	uint8_t other_pops;
	uint8_t probe;
	uint8_t child_probe;
} xp_stub_memory_places[MEMORY_SLOTS];

uint32_t xp_stub_memory_entry(enum xp_stub_form form, bool rdpid)
{
	return XP_STUB_MEMORY + (2 * form + rdpid) * XP_STUB_MEMORY_BYTES;
}

uint32_t xp_stub_memory_probe(enum xp_stub_form form, bool rdpid)
{
	return xp_stub_memory_entry(form, rdpid) + xp_stub_memory_places[2 * form + rdpid].probe;
}

uint32_t xp_stub_memory_child_probe(enum xp_stub_form form, bool rdpid)
{
	return xp_stub_memory_entry(form, rdpid) + xp_stub_memory_places[2 * form + rdpid].child_probe;
}

/* Behind the three pushes of the guarded slot. */
#define PUSHED 17u

/* The row of the unwind table from `offset` on: the return address is `bytes` below the CFA's end. */
static uint8_t *put_row(uint8_t *to, uint32_t *location, uint32_t offset, uint8_t bytes)
{
	*to++ = 0x02; /* DW_CFA_advance_loc1 */
	*to++ = (uint8_t)(offset - *location);
	*to++ = 0x0e; /* DW_CFA_def_cfa_offset */
	*to++ = bytes;
	*location = offset;
	return to;
}

static uint8_t *put_pops(uint8_t *to, uint32_t *location, uint32_t offset)
{
	to = put_row(to, location, offset + 1, 24);
	to = put_row(to, location, offset + 2, 16);
	return put_row(to, location, offset + 4, 8);
}

uint8_t *xp_stub_put_memory_cfi(uint8_t *to, uint32_t location)
{
	for (uint32_t i = 0; i < MEMORY_SLOTS; i++) {
		uint32_t slot = XP_STUB_MEMORY + i * XP_STUB_MEMORY_BYTES;
		const struct places *places = &xp_stub_memory_places[i];

		to = put_row(to, &location, slot + PUSHED - 2, 16);
		to = put_row(to, &location, slot + PUSHED - 1, 24);
		to = put_row(to, &location, slot + PUSHED, 32);
		to = put_pops(to, &location, slot + places->pops);
		to = put_row(to, &location, slot + places->other_path, 32);
		to = put_pops(to, &location, slot + places->other_pops);
	}
	return to;
}

void xp_stub_make_memory(uint8_t page[XP_STUB_BYTES])
{
	memcpy(page + XP_STUB_MEMORY, xp_stub_memory_code, sizeof(xp_stub_memory_code));
}
