// SPDX-License-Identifier: BSD-2-Clause
/*
 * The slots of the stub that record a call in memory, without the kernel (call_ring.h). Each slot ends in a nop with a
 * uprobe, like XP_STUB_CALL, for the slow path: a thread without a ring, or with a full ring, runs into the nop. The
 * BPF program finds the fs base of the thread in rax, and three registers on the stack (stub_memory_call in
 * bpf/sled.bpf.c). A child of fork() runs into another nop: it has no table until xprof makes one (call_rings.h).
 *
 * The code preserves all registers except r10 and the flags, even r11: some calling conventions pass arguments in r11.
 * xadd without a lock prefix reserves a record: xadd is a single instruction, so a signal handler of the thread, the
 * only other writer, cannot interrupt it. A handler can run between the test of the limit and the xadd:
 * XP_CALL_RING_MARGIN. The store of the word commits the record; x86 preserves the order of stores.
 *
 * An entry and an exit cost 34 ns on the machine of development, about half of it for rdtsc. With a uprobe on the nop,
 * they cost 700 ns.
 */
#include <string.h>

#include "arch/x86_64/stub.h"
#include "xprof/event.h"

#define TEXT(number) #number
#define NUMBER(number) TEXT(number)

_Static_assert(XP_CALL_BLOCKS == 1 << 8 && XP_CALL_RECORD_BYTES == 1 << 4, "as in the code");
_Static_assert(XP_CALL_BLOCK_BYTES == 0x41000 && XP_CALL_TABLES == 0x4308000, "in parentheses, for the assembler, too");
_Static_assert(XP_CALL_LARGE_BLOCKS *XP_CALL_BLOCK_BYTES >= XP_CALL_HEADER_BYTES + 16 * XP_CALL_LARGE_RECORDS, "room");

/* clang-format off */
__asm__(".pushsection .rodata\n"
	".balign 64\n"
	"xp_stub_memory_code:\n"
	".set stub, xp_stub_memory_code - " NUMBER(XP_STUB_MEMORY) "\n"

	/* An instruction that accesses the table or a ring, see xp_stub_ring_access(). */
	".macro ring text:vararg\n"
	"91:	\\text\n"
	"92:\n"
	".pushsection .rodata.xp_stub_accesses, \"a\"\n"
	"	.2byte 91b - xp_stub_memory_code, 92b - 91b\n"
	".popsection\n"
	".endm\n"

	/*
	 * Stores the number of the thread's ring in rax. A thread can have one of two entries: the entry for the hash
	 * of its fs base, or the entry next to it; if the result is above 255, the caller uses next_entry. r11: the
	 * entry. Changes rdx. Jumps to 9 if the process has no table.
	 */
	".macro find_entry\n"
	"	mov stub + " NUMBER(XP_STUB_TABLE) "(%rip), %r11\n"
	"	test %r11, %r11\n"
	"	je 9f\n"
	"	rdfsbase %rax\n"
	"	imul $" NUMBER(XP_CALL_ENTRY_FACTOR) ", %eax, %edx\n"
	"	shr $(32 - " NUMBER(XP_CALL_ENTRY_BITS) "), %edx\n"
	"	lea (%r11,%rdx,8), %r11\n"
	"	shl $8, %rax\n"
	"	ring xor (%r11), %rax\n"
	"	cmp $255, %rax\n"
	".endm\n"
	".macro next_entry\n"
	"	xor $8, %r11\n"
	"	rdfsbase %rax\n"
	"	shl $8, %rax\n"
	"	ring xor (%r11), %rax\n"
	"	cmp $255, %rax\n"
	".endm\n"

	/* The header of the ring whose block has the number in rax, in r11. */
	".macro find_header\n"
	"	imul $" NUMBER(XP_CALL_BLOCK_BYTES) ", %eax, %eax\n"
	"	lea stub + " NUMBER(XP_STUB_RINGS) "(%rip), %r11\n"
	"	add %rax, %r11\n"
	".endm\n"

	".macro memory_slot number:req, rdpid:req\n"
	"	.org xp_stub_memory_code + \\number * " NUMBER(XP_STUB_MEMORY_BYTES) ", 0xcc\n"
	"0:	push %r11\n"
	"	push %rax\n"
	"	push %rdx\n"
	"	find_entry\n"
	"	ja 2f\n"
	"1:	find_header\n"
	"record_\\number:\n"
	"	ring mov 16(%r11), %rdx\n"		/* head */
	"	ring cmp (%r11), %rdx\n"		/* limit */
	"	jae 3f\n"
	"	mov $1, %eax\n"
	"	ring xadd %rax, 16(%r11)\n"
	"	ring and 40(%r11), %eax\n"		/* mask */
	"	and $(" NUMBER(XP_CALL_LARGE_RECORDS) " - 1), %eax\n"
	"	shl $4, %eax\n"
	"	lea " NUMBER(XP_CALL_HEADER_BYTES) "(%r11,%rax), %r11\n"
	"	rdtsc\n"
	"	shl $32, %rdx\n"
	"	or %rdx, %rax\n"
	"	shl $" NUMBER(XP_CALL_CPU_BITS) ", %rax\n"
	/* Reads the CPU number, as the vDSO's getcpu() does (vdso_read_cpunode(), arch/x86/include/asm/segment.h). */
	"	.if \\rdpid\n"
	"	rdpid %rdx\n"
	"	.else\n"
	"	mov $0x7b, %edx\n"
	"	lsl %edx, %edx\n"
	"	.endif\n"
	"	and $((1 << " NUMBER(XP_CALL_CPU_BITS) ") - 1), %edx\n"
	"	or %rdx, %rax\n"
	"	ring mov %rax, (%r11)\n"
	"	lea 24(%rsp), %rax\n"
	"	shr $3, %rax\n"
	"	shl $32, %rax\n"
	"	or %r10, %rax\n"
	"	ring mov %rax, 8(%r11)\n"
	"6:	pop %rdx\n"
	"	pop %rax\n"
	"	pop %r11\n"
	"	ret\n"
	"2:	next_entry\n"
	"	jbe 1b\n"
	"fall_\\number:\n"
	"9:	xor %edx, %edx\n"
	"	jmp 8f\n"
	"3:	make_final %rdx\n"
	"8:	rdfsbase %rax\n"
	"	cmpb $0, stub + " NUMBER(XP_STUB_FLAG) "(%rip)\n"
	"	jne 4f\n"
	"5:	nop\n"				/* nop for children */
	"	jmp 7f\n"
	"4:	nop\n"
	"7:	pop %rdx\n"
	"	pop %rax\n"
	"	pop %r11\n"
	"	ret\n"
	".pushsection .rodata.xp_stub_memory_places, \"a\"\n"
	"	.byte 6b - 0b, 2b - 0b, 7b - 0b, 4b - 0b, 5b - 0b\n"
	".popsection\n"
	".endm\n"

	/*
	 * Makes all records before this one final (not to be discarded): BPF is about to record an event after them. A
	 * count in the upper bits of taken_back stops an exit slot that was interrupted by this code.
	 */
	".macro make_final head:req\n"
	"	ring mov \\head, 8(%r11)\n"
	"	ring addl $(1 << (" NUMBER(XP_CALL_TAKEN_BACK_BITS) " - 32)), 28(%r11)\n"
	".endm\n"

	/*
	 * An exit. If the last record is the entry of the same call (function and stack pointer) and is recent enough,
	 * clears its word, lowers head and increments taken_back. Otherwise records the exit. xprof may read the entry
	 * at the same time: whoever clears the word first gets the record.
	 *
	 * A signal handler may run between any two instructions. If it changed head or the final records, cmpxchg16b
	 * changes nothing, and the slot writes the word back. If the handler leaves by longjmp, either the record was
	 * discarded or it remains as an uncommitted record.
	 */
	".macro take_back_slot number:req\n"
	"	.org xp_stub_memory_code + " NUMBER(XP_STUB_TAKE_BACK) " - " NUMBER(XP_STUB_MEMORY) " + "
		"\\number * " NUMBER(XP_STUB_TAKE_BACK_BYTES) ", 0xcc\n"
	"0:	push %r11\n"
	"	push %rax\n"
	"	push %rdx\n"
	"	push %rcx\n"
	"	push %rbx\n"
	"	push %rsi\n"
	"	push %rdi\n"
	"	find_entry\n"
	"	ja 2f\n"
	"1:	find_header\n"
	"	ring mov 16(%r11), %rbx\n"		/* head */
	"	ring mov 24(%r11), %rcx\n"		/* taken_back, and the member after it: */
	"	ring cmp 8(%r11), %rbx\n"		/* final */
	"	jbe 3f\n"
	"	lea -1(%rbx), %esi\n"
	"	ring and 40(%r11), %esi\n"		/* mask */
	"	and $(" NUMBER(XP_CALL_LARGE_RECORDS) " - 1), %esi\n"
	"	shl $4, %esi\n"
	"	lea " NUMBER(XP_CALL_HEADER_BYTES) "(%r11,%rsi), %rsi\n"
	/* The word of the entry has kind 0. At the exit (kind 1), the stack pointer is one word higher. */
	"	mov %r10d, %eax\n"
	"	shr $" NUMBER(XP_FN_BITS) ", %eax\n"
	"	and $1, %eax\n"
	"	lea 56(%rsp), %rdi\n"
	"	shr $3, %rdi\n"
	"	sub %rax, %rdi\n"
	"	shl $32, %rdi\n"
	"	mov %r10d, %eax\n"
	"	and $((1 << " NUMBER(XP_FN_BITS) ") - 1), %eax\n"
	"	or %rax, %rdi\n"
	"	ring cmp %rdi, 8(%rsi)\n"
	"	jne 3f\n"
	"	rdtsc\n"
	"	shl $32, %rdx\n"
	"	or %rdx, %rax\n"
	"	shl $" NUMBER(XP_CALL_CPU_BITS) ", %rax\n"
	"	or $((1 << " NUMBER(XP_CALL_CPU_BITS) ") - 1), %rax\n"
	"	ring sub (%rsi), %rax\n"
	"	ring cmp 32(%r11), %rax\n"		/* min_ticks */
	"	jae 3f\n"
	"	mov %rdi, %rax\n"
	"	xor %edx, %edx\n"
	"	ring lock cmpxchg %rdx, 8(%rsi)\n"
	"	jne 3f\n"
	"	mov %rbx, %rax\n"
	"	mov %rcx, %rdx\n"
	"	dec %rbx\n"
	"	inc %rcx\n"
	"	ring cmpxchg16b 16(%r11)\n"		/* head and taken_back */
	"	jne 4f\n"
	"6:	pop %rdi\n"
	"	pop %rsi\n"
	"	pop %rbx\n"
	"	pop %rcx\n"
	"	pop %rdx\n"
	"	pop %rax\n"
	"	pop %r11\n"
	"	ret\n"
	"4:	ring mov %rdi, 8(%rsi)\n"
	"3:	pop %rdi\n"
	"	pop %rsi\n"
	"	pop %rbx\n"
	"	pop %rcx\n"
	"	jmp record_\\number\n"
	"2:	next_entry\n"
	"	jbe 1b\n"
	"9:	pop %rdi\n"
	"	pop %rsi\n"
	"	pop %rbx\n"
	"	pop %rcx\n"
	"	jmp fall_\\number\n"
	".pushsection .rodata.xp_stub_take_back_places, \"a\"\n"
	"	.2byte 6b - 0b, 4b - 0b, 3b - 0b, 2b - 0b, 9b - 0b\n"
	".popsection\n"
	".endm\n"

	/* An event: the CPU's flags may be live. */
	".macro event_slot number:req\n"
	"	.org xp_stub_memory_code + " NUMBER(XP_STUB_MEMORY_EVENT) " - " NUMBER(XP_STUB_MEMORY) " + "
		"\\number * " NUMBER(XP_STUB_MEMORY_EVENT_BYTES) ", 0xcc\n"
	"0:	pushfq\n"
	"	push %r11\n"
	"	push %rax\n"
	"	push %rdx\n"
	"	find_entry\n"
	"	jbe 1f\n"
	"	next_entry\n"
	"	ja 9f\n"
	"1:	find_header\n"
	"	ring mov 16(%r11), %rax\n"		/* head */
	"	make_final %rax\n"
	"9:	pop %rdx\n"
	"	pop %rax\n"
	"	pop %r11\n"
	"	popfq\n"
	"4:	nop\n"
	"	ret\n"
	".pushsection .rodata.xp_stub_event_places, \"a\"\n"
	"	.byte 9b - 0b, 4b - 0b\n"
	".popsection\n"
	".endm\n"

	".pushsection .rodata.xp_stub_memory_places, \"a\"\n"
	"xp_stub_memory_places:\n"
	".popsection\n"
	".pushsection .rodata.xp_stub_take_back_places, \"a\"\n"
	"xp_stub_take_back_places:\n"
	".popsection\n"
	".pushsection .rodata.xp_stub_event_places, \"a\"\n"
	"xp_stub_event_places:\n"
	".popsection\n"
	".pushsection .rodata.xp_stub_accesses, \"a\"\n"
	"xp_stub_accesses:\n"
	".popsection\n"

	/* In the order of the parameter `rdpid`. */
	"	memory_slot 0, 0\n"
	"	memory_slot 1, 1\n"
	"	.irp number, 0, 1\n"
	"	take_back_slot \\number\n"
	"	.endr\n"
	"	event_slot 0\n"
	"	event_slot 1\n"
	"	.org xp_stub_memory_code + " NUMBER(XP_STUB_MEMORY_EVENT) " - " NUMBER(XP_STUB_MEMORY) " + "
		"2 * " NUMBER(XP_STUB_MEMORY_EVENT_BYTES) ", 0xcc\n"
	".pushsection .rodata.xp_stub_accesses, \"a\"\n"
	"	.2byte 0, 0\n"
	".popsection\n"
	".purgem ring\n"
	".purgem find_entry\n"
	".purgem next_entry\n"
	".purgem find_header\n"
	".purgem memory_slot\n"
	".purgem make_final\n"
	".purgem take_back_slot\n"
	".purgem event_slot\n"
	".popsection\n");
/* clang-format on */

#define MEMORY_SLOTS 2
#define EVENT_SLOTS 2
extern const uint8_t xp_stub_memory_code[XP_STUB_TEXT + XP_STUB_TEXT_BYTES - XP_STUB_MEMORY];
/* Offsets in a slot, from the assembler. "other": start of a path on which all registers are pushed. */
extern const struct places {
	uint8_t pops; /* offset of the pops on the path that records the call */
	uint8_t other;
	uint8_t other_pops;
	uint8_t probe;
	uint8_t child_probe;
} xp_stub_memory_places[MEMORY_SLOTS];
extern const struct take_back_places {
	uint16_t pops; /* offset of the pops on the path that discards a call */
	uint16_t other;
	uint16_t record_pops; /* the pops that follow in the recording slot */
	uint16_t neighbor;    /* another one */
	uint16_t other_pops;  /* the same */
} xp_stub_take_back_places[MEMORY_SLOTS];
extern const struct event_places {
	uint8_t pops;
	uint8_t probe;
} xp_stub_event_places[EVENT_SLOTS];

extern const struct access {
	uint16_t offset; /* in the code */
	uint16_t bytes;	 /* 0: the end of the list */
} xp_stub_accesses[];

size_t xp_stub_ring_access(size_t number, uint32_t *offset)
{
	*offset = XP_STUB_MEMORY + xp_stub_accesses[number].offset;
	return xp_stub_accesses[number].bytes;
}

uint32_t xp_stub_memory_entry(bool rdpid)
{
	return XP_STUB_MEMORY + rdpid * XP_STUB_MEMORY_BYTES;
}

uint32_t xp_stub_memory_probe(bool rdpid)
{
	return xp_stub_memory_entry(rdpid) + xp_stub_memory_places[rdpid].probe;
}

uint32_t xp_stub_memory_child_probe(bool rdpid)
{
	return xp_stub_memory_entry(rdpid) + xp_stub_memory_places[rdpid].child_probe;
}

uint32_t xp_stub_take_back_entry(bool rdpid)
{
	return XP_STUB_TAKE_BACK + rdpid * XP_STUB_TAKE_BACK_BYTES;
}

uint32_t xp_stub_memory_event_entry(enum xp_stub_slot slot)
{
	return XP_STUB_MEMORY_EVENT + (slot == XP_STUB_TYPED) * XP_STUB_MEMORY_EVENT_BYTES;
}

uint32_t xp_stub_memory_event_probe(enum xp_stub_slot slot)
{
	return xp_stub_memory_event_entry(slot) + xp_stub_event_places[slot == XP_STUB_TYPED].probe;
}

/* Offset after the three pushes of a slot; the first push has two bytes. */
#define PUSHED 4u

/* The rows of the unwind table so far. */
struct rows {
	uint8_t *end;
	uint32_t location;
};

/* Adds a row from `offset` on: the return address is `bytes` below the CFA's end. */
static void put_row(struct rows *rows, uint32_t offset, uint8_t bytes)
{
	*rows->end++ = 0x02; /* DW_CFA_advance_loc1 */
	*rows->end++ = (uint8_t)(offset - rows->location);
	*rows->end++ = 0x0e; /* DW_CFA_def_cfa_offset */
	*rows->end++ = bytes;
	rows->location = offset;
}

/* Adds a row after each of `count` one-byte pops. `left`: words on the stack after the last pop. */
static void put_pops(struct rows *rows, uint32_t offset, unsigned int count, unsigned int left)
{
	for (unsigned int i = 1; i <= count; i++)
		put_row(rows, offset + i, (uint8_t)(8 * (left + count - i)));
}

/* Adds rows for the pops of rdx, rax and r11. The pop of r11 has two bytes. */
static void put_last_pops(struct rows *rows, uint32_t offset, uint8_t left)
{
	put_pops(rows, offset, 2, left + 1u);
	put_row(rows, offset + 4, (uint8_t)(8 * left));
}

static void put_memory_slot(struct rows *rows, uint32_t slot, const struct places *places)
{
	put_row(rows, slot + PUSHED - 2, 16);
	put_row(rows, slot + PUSHED - 1, 24);
	put_row(rows, slot + PUSHED, 32);
	put_last_pops(rows, slot + places->pops, 1);
	put_row(rows, slot + places->other, 32);
	put_last_pops(rows, slot + places->other_pops, 1);
}

static void put_take_back_slot(struct rows *rows, uint32_t slot, const struct take_back_places *places)
{
	for (unsigned int i = 0; i < 7; i++)
		put_row(rows, slot + PUSHED - 2 + i, (uint8_t)(16 + 8 * i));
	put_pops(rows, slot + places->pops, 4, 4);
	put_last_pops(rows, slot + places->pops + 4, 1);
	put_row(rows, slot + places->other, 64);
	put_pops(rows, slot + places->record_pops, 4, 4);
	put_row(rows, slot + places->neighbor, 64);
	put_pops(rows, slot + places->other_pops, 4, 4);
	put_row(rows, slot + XP_STUB_TAKE_BACK_BYTES, 8);
}

static void put_event_slot(struct rows *rows, uint32_t slot, const struct event_places *places)
{
	put_row(rows, slot + 1, 16);
	put_row(rows, slot + 3, 24);
	put_row(rows, slot + 4, 32);
	put_row(rows, slot + 5, 40);
	put_last_pops(rows, slot + places->pops, 2);
	put_row(rows, slot + places->pops + 5, 8);
}

uint8_t *xp_stub_put_memory_cfi(uint8_t *to, uint32_t location)
{
	struct rows rows = { to, location };

	for (uint32_t i = 0; i < MEMORY_SLOTS; i++)
		put_memory_slot(&rows, XP_STUB_MEMORY + i * XP_STUB_MEMORY_BYTES, &xp_stub_memory_places[i]);
	for (uint32_t i = 0; i < MEMORY_SLOTS; i++)
		put_take_back_slot(&rows, XP_STUB_TAKE_BACK + i * XP_STUB_TAKE_BACK_BYTES,
				   &xp_stub_take_back_places[i]);
	for (uint32_t i = 0; i < EVENT_SLOTS; i++)
		put_event_slot(&rows, XP_STUB_MEMORY_EVENT + i * XP_STUB_MEMORY_EVENT_BYTES, &xp_stub_event_places[i]);
	return rows.end;
}

void xp_stub_make_memory(uint8_t page[XP_STUB_BYTES])
{
	memcpy(page + XP_STUB_MEMORY, xp_stub_memory_code, sizeof(xp_stub_memory_code));
}
