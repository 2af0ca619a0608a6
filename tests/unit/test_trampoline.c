// SPDX-License-Identifier: BSD-2-Clause
/*
 * Executes trampolines in this process: hand-written functions give the same result before and after they are patched,
 * in each register and flag. Each call is counted once at its entry and once at its exit.
 */
#include <string.h>
#include <sys/mman.h>

#include "functions/patches.h"
#include "hand_functions.h"

enum { REGISTERS = 16, RAX = 0, RSP = 4, RDI = 7, R10 = 10 };

struct state {
	uint64_t registers[REGISTERS]; /* by register number; RSP: the value after the call minus the value before */
	uint64_t flags;
};

/* Used by the code below. */
struct state before_call __attribute__((used)), after_call __attribute__((used));
const void *called __attribute__((used));
uint64_t counts[64] __attribute__((used));

void call_it(void);
void count_slot(void);

#define LOAD(number, name) "mov before_call+8*" #number "(%rip), %" #name "\n"
#define SAVE(number, name) "mov %" #name ", after_call+8*" #number "(%rip)\n"
#define ALL(MACRO)                                                                                                     \
	MACRO(1, rcx)                                                                                                  \
	MACRO(2, rdx)                                                                                                  \
	MACRO(3, rbx)                                                                                                  \
	MACRO(5, rbp)                                                                                                  \
	MACRO(6, rsi)                                                                                                  \
	MACRO(7, rdi)                                                                                                  \
	MACRO(8, r8)                                                                                                   \
	MACRO(9, r9)                                                                                                   \
	MACRO(10, r10)                                                                                                 \
	MACRO(11, r11)                                                                                                 \
	MACRO(12, r12)                                                                                                 \
	MACRO(13, r13)                                                                                                 \
	MACRO(14, r14)                                                                                                 \
	MACRO(15, r15)                                                                                                 \
	MACRO(0, rax)

__asm__(
    ".text\ncall_it:\n"
    "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
    "mov %rsp, after_call+8*4(%rip)\n"
    "push $77; push before_call+8*16(%rip); popf\n" ALL(LOAD) "call *called(%rip)\n" ALL(
	SAVE) "pushf; pop after_call+8*16(%rip)\n"
	      "mov after_call+8*4(%rip), %rax; sub %rsp, after_call+8*4(%rip); mov %rax, %rsp\n"
	      "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n"
	      /* Overwrites the registers that the stub's slots overwrite. */
	      "count_slot:\n"
	      "push %r11; lea counts(%rip), %r11; incq (%r11,%r10,8); pop %r11; xor %r10d, %r10d; cmp $1, %r10d; ret");

/* More functions, each with one kind of instruction in a window. */
DATA("value: .quad 1000; to_three_bytes: .quad three_bytes");
FUNCTION(reads_value, "mov value(%rip), %rax; cmp %rax, %rdi; ret");
FUNCTION(compares_value, "cmpl $1000, value(%rip); cmpw $7, value(%rip); nop; ret");
FUNCTION(jumps_short, "test %edi, %edi; js 1f; add $1000, %eax; 1: add $1000, %ecx; ret");
FUNCTION(jumps_over, "mov %edi, %edx; xor %eax, %eax; jmp 1f; add $1000, %eax; 1: add $1000, %ecx; ret");
FUNCTION(keeps_flags, "lea 1000(%rdi), %rax; ret");
FUNCTION(keeps_r10, "lea 1000(%r10), %rax; mov %r10, %rcx; ret");
FUNCTION(reads_argument, "mov $1000, %eax; mov 8(%rsp), %rcx; nop; ret");
FUNCTION(goes_through_pointer, "mov $1000, %ecx; jmp *to_three_bytes(%rip)");
FUNCTION(recursive, "test %edi, %edi; jle 1f; sub $1, %edi; call recursive; add $1000, %ecx; 1: add $1000, %esi; ret");
FUNCTION(returns_much, "mov %edi, %eax; repz ret; nopl 0(%rax)");
FUNCTION(last_of_all, "ret");

static const struct {
	const char *name;
	const uint8_t *code;
	unsigned int calls; /* argument of each call, if rdi is not negative */
} functions[] = {
	{ "three_bytes", three_bytes, 1 },
	{ "padded", padded, 1 },
	{ "backwards", backwards, 1 },
	{ "with_host", with_host, 1 },
	{ "tail", tail, 1 },
	{ "taken_tail", taken_tail, 1 },
	{ "short_taken_tail", short_taken_tail, 1 },
	{ "plt_tail", plt_tail, 1 },
	{ "endbr", endbr, 1 },
	{ "has_cold", has_cold, 1 },
	{ "leaf_with_cold", leaf_with_cold, 1 },
	{ "calls_first", calls_first, 1 },
	{ "reads_value", reads_value, 1 },
	{ "compares_value", compares_value, 1 },
	{ "jumps_short", jumps_short, 1 },
	{ "jumps_over", jumps_over, 1 },
	{ "keeps_flags", keeps_flags, 1 },
	{ "keeps_r10", keeps_r10, 1 },
	{ "reads_argument", reads_argument, 1 },
	{ "goes_through_pointer", goes_through_pointer, 1 },
	{ "recursive", recursive, 6 },
	{ "returns_much", returns_much, 1 },
};
enum { FUNCTIONS = sizeof(functions) / sizeof(*functions), INPUTS = 6 };

/* 5 and -5, with the arithmetic flags (CF, PF, AF, ZF, SF, OF) all off, all on, and alternating. */
static struct state input(size_t number)
{
	static const uint64_t flags[] = { 0x202, 0xad7, 0x297 };
	struct state state = { .flags = flags[number % 3] };

	for (size_t i = 0; i < REGISTERS; i++)
		state.registers[i] = 0x1111111111111111u * i + number;
	state.registers[RDI] = number < 3 ? 5 : (uint64_t)-5;
	return state;
}

static void run(const uint8_t *code, size_t number, struct state *result)
{
	before_call = input(number);
	called = code;
	call_it();
	*result = after_call;
	result->flags &= 0xcd5;
}

static uint8_t *room;
static size_t used;
static uint8_t *text_copy;
static struct xp_patched_function patched;

static void prepare(void)
{
	uintptr_t start = (uintptr_t)three_bytes & ~0xffful, end = ((uintptr_t)last_of_all + 0x1000) & ~0xffful;

	make_plan();
	for (uintptr_t at = start - (64 << 20); !room || room == MAP_FAILED; at -= 1 << 20)
		room = mmap((void *)at, 1 << 20, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_int_equal(mprotect((void *)start, end - start, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	text_copy = malloc(end - start);
	memcpy(text_copy, (void *)start, end - start);
	patched = (struct xp_patched_function){
		.plan = &plan,
		.code = text_copy,
		.code_vaddr = start - base,
		.bias = base,
		.slots = { (uintptr_t)count_slot, (uintptr_t)count_slot },
	};
}

static void patch(size_t number)
{
	const struct xp_call_plan_function *function = find(functions[number].code);
	struct xp_code_patch jumps[2];

	if (!function || function->way != XP_CALL_PLAN_PATCHED || function->probe_count)
		fail_msg("%s cannot be patched", functions[number].name);
	patched.function = function;
	for (size_t kind = 0; kind < 4; kind++)
		patched.words[kind] = (uint32_t)(2 * number + (kind != XP_SITE_ENTRY));
	for (uint32_t i = function->first_window; i < function->first_window + function->window_count; i++) {
		size_t bytes = xp_patches_encode(&patched, i, (uintptr_t)room + used, room + used, jumps);

		assert_true(bytes);
		used += bytes;
		for (size_t k = 0; k < 2 && jumps[k].count; k++)
			memcpy((void *)jumps[k].address, jumps[k].bytes, jumps[k].count);
	}
}

TEST(patched_functions_do_the_same)
{
	static struct state results[FUNCTIONS][INPUTS];
	struct state result;

	prepare();
	for (size_t i = 0; i < FUNCTIONS; i++)
		for (size_t number = 0; number < INPUTS; number++)
			run(functions[i].code, number, &results[i][number]);
	for (size_t i = 0; i < FUNCTIONS; i++)
		patch(i);
	for (size_t i = 0; i < FUNCTIONS; i++) {
		for (size_t number = 0; number < INPUTS; number++) {
			memset(counts, 0, sizeof(counts));
			run(functions[i].code, number, &result);
			if (memcmp(&result, &results[i][number], sizeof(result)))
				fail_msg("%s, input %zu: rax %lx, was %lx; flags %lx, were %lx", functions[i].name,
					 number, result.registers[RAX], results[i][number].registers[RAX], result.flags,
					 results[i][number].flags);
			if (counts[2 * i] != (number < 3 ? functions[i].calls : 1) ||
			    counts[2 * i + 1] != counts[2 * i])
				fail_msg("%s, input %zu: %lu entries, %lu exits", functions[i].name, number,
					 counts[2 * i], counts[2 * i + 1]);
			/* Its callees are counted, too. */
			for (size_t k = 0; k < FUNCTIONS; k++)
				assert_int_equal(counts[2 * k], counts[2 * k + 1]);
		}
	}
}

TEST(what_is_out_of_reach_or_cannot_move)
{
	uint8_t bytes[XP_TRAMPOLINE_BYTES_MAX], jump[5];
	const uint8_t code[] = { 0x8b, 0x05, 0, 0, 0, 0, 0x0f, 0x05, 0x90, 0xc3 };
	const struct xp_trampoline_site site = { .kind = XP_SITE_ENTRY };
	struct xp_trampoline trampoline = { code, 6, 1ul << 40, { 1ul << 40, 1ul << 40 }, &site, 1 };

	assert_true(xp_trampoline_encode(&trampoline, (1ul << 40) + 0x1000, bytes));
	assert_false(xp_trampoline_encode(&trampoline, (1ul << 40) + (1ul << 31), bytes));
	trampoline.slots[0] = 0;
	assert_false(xp_trampoline_encode(&trampoline, (1ul << 40) + 0x1000, bytes));
	trampoline.slots[0] = 1ul << 40;
	trampoline.bytes = 8; /* with a system call */
	assert_false(xp_trampoline_encode(&trampoline, (1ul << 40) + 0x1000, bytes));
	trampoline.bytes = 5; /* cut */
	assert_false(xp_trampoline_encode(&trampoline, (1ul << 40) + 0x1000, bytes));
	assert_true(xp_trampoline_jump(0x1000, 0x1000ul + INT32_MAX, jump));
	assert_false(xp_trampoline_jump(0x1000, 0x1005 + (1ul << 31), jump));
	assert_true(xp_trampoline_short_jump(0x1000, 0x1002 - 128, jump) && jump[1] == 0x80);
	assert_false(xp_trampoline_short_jump(0x1000, 0x1002 + 128, jump));
}
