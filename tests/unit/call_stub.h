/* SPDX-License-Identifier: BSD-2-Clause */
/* Executes the stub's code for memory mode, with one ring. */
#ifndef CALL_STUB_H
#define CALL_STUB_H

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>
#include <cmocka.h>

#include "arch/x86_64/instructions.h"
#include "base/util.h"
#include "sled/call_ring.h"
#include "xprof/event.h"

#define RECORDS XP_CALL_RING_RECORDS
#define RING 5u /* number of its block */
#define USABLE (RECORDS - XP_CALL_RING_MARGIN)
#define FN 7u

/*
 * Calls a slot with a word in r10d. leave_slot() jumps to the slot, as the sled of an exit does; step_slot() sets the
 * trap flag in the slot.
 */
void call_slot(const uint8_t *slot, uint32_t word);
void leave_slot(const uint8_t *slot, uint32_t word);
void step_slot(const uint8_t *slot, uint32_t word);
/* Fills all registers except rsp and r10, calls the slot, and counts the changed registers. */
uint64_t changed_registers(const uint8_t *slot, uint32_t word);

/* clang-format off */
__asm__(".text\n"
	"call_slot:\n"
	"	mov %esi, %r10d\n"
	"	call *%rdi\n"
	"	ret\n"
	"leave_slot:\n"
	"	mov %esi, %r10d\n"
	"	jmp *%rdi\n"
	"step_slot:\n"
	"	mov %esi, %r10d\n"
	"	pushfq\n"
	"	orq $0x100, (%rsp)\n"
	"	popfq\n"
	"	call *%rdi\n"
	"	pushfq\n"
	"	andq $~0x100, (%rsp)\n"
	"	popfq\n"
	"	ret\n"
	"changed_registers:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
	"	mov %esi, %r10d\n"
	"	push %rdi\n"			/* the slot */
	".set value, 0x100\n"
	".irp reg, rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r11, r12, r13, r14, r15\n"
	"	mov $value, %\\reg\n"
	".set value, value + 1\n"
	".endr\n"
	"	call *(%rsp)\n"
	"	movq $0, (%rsp)\n"
	".set value, 0x100\n"
	".irp reg, rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r11, r12, r13, r14, r15\n"
	"	cmp $value, %\\reg\n"
	"	je 1f\n"
	"	incq (%rsp)\n"
	"1:\n"
	".set value, value + 1\n"
	".endr\n"
	"	pop %rax\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n	pop %rbx\n"
	"	ret\n");
/* clang-format on */

static struct test {
	uint8_t *stub;
	const uint8_t *slot;
	uint64_t *key; /* index in the table */
	struct xp_call_header *mine;
	struct xp_call_record *records;
	struct xp_call_ring ring;
} test;

static inline uint32_t word(enum xp_event_kind kind)
{
	return xp_event_word(FN, kind);
}

static inline uint64_t fs_base_now(void)
{
	uint64_t fs_base;

	__asm__ volatile("rdfsbase %0" : "=r"(fs_base));
	return fs_base;
}

/* Contains the stub, its flag and counters, the rings, and the table. */
static inline void map_stub(bool rdpid, bool neighbor)
{
	uint8_t *stub = mmap(NULL, XP_STUB_MAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *table = (uint64_t *)(stub + XP_STUB_RINGS + XP_CALL_TABLES), fs_base = fs_base_now();

	assert_ptr_not_equal(stub, MAP_FAILED);
	xp_stub_make(stub);
	assert_int_equal(mprotect(stub, XP_STUB_BYTES, PROT_READ | PROT_EXEC), 0);
	stub[XP_STUB_FLAG] = 1;
	test.stub = stub;
	test.slot = stub + xp_stub_memory_entry(rdpid);
	*(uint64_t *)(stub + XP_STUB_TABLE) = (uintptr_t)table;
	test.key = &table[XP_CALL_ENTRY_OF(fs_base) ^ neighbor];
	test.mine = (struct xp_call_header *)(stub + XP_STUB_RINGS + RING * XP_CALL_BLOCK_BYTES);
	test.records = (struct xp_call_record *)((uint8_t *)test.mine + XP_CALL_HEADER_BYTES);
	xp_call_ring_begin(&test.ring, test.mine, test.records, RECORDS);
	*test.key = XP_CALL_KEY(fs_base, RING);
}

static inline void unmap_stub(void)
{
	munmap(test.stub, XP_STUB_MAP_BYTES);
}

static inline size_t take(struct xp_call *calls, size_t room)
{
	const struct xp_call_range all = {
		.until_tsc = UINT64_MAX, .end = UINT64_MAX, .now_tsc = __rdtsc(), .all = true
	};

	return xp_call_ring_take(&test.ring, &all, calls, room);
}

static inline size_t take_until(uint64_t tsc, struct xp_call *calls, size_t room)
{
	const struct xp_call_range range = { .until_tsc = tsc, .end = UINT64_MAX, .now_tsc = __rdtsc() };

	return xp_call_ring_take(&test.ring, &range, calls, room);
}

#endif
