/* SPDX-License-Identifier: BSD-2-Clause */
/* Hand-written stacks and tables, and the expected frames. */
#include "unit.h"

#include <string.h>

#include <errno.h>

#include "base/util.h"
#include "cfi_hand_made.h"
#include "unwind/unwind.h"
#include "xprof/event.h"

/* The file that is mapped at CODE: a function at each offset 0x100, 0x200, ..., one for each rule. */
#define CODE 0x400000ull
#define SP 0x7ffc00001000ull /* the start of a page */
enum {
	AT_RSP = 0x100,	   /* CFA = rsp + 16, rbp unchanged */
	AT_PUSHED = 0x200, /* CFA = rsp + 24, rbp at CFA - 16 */
	AT_RBP = 0x300,	   /* CFA = rbp + 16, rbp at CFA - 16 */
	AT_PLT = 0x400,
	AT_DEREF = 0x500,     /* CFA = *(rbp - 8), rbp at *rbp, as gcc realigns main's stack */
	AT_DEREF_CFA = 0x600, /* CFA = *(rsp + 8) + 16, rbp at CFA - 24 */
	AT_SIGNAL = 0x700,
	AT_END = 0x800,
	AT_GAP = 0x900,
	AT_BIG = 0xa00,	   /* CFA = rsp + 8 * 65535 */
	AT_ABOVE = 0xb00,  /* CFA = rsp + 16, rbp at CFA + 8 */
	AT_POPPED = 0xc00, /* CFA = rsp + 8, rbp at CFA - 16 */
	AT_R11 = 0xd00,	   /* CFA = r11 + 16, rbp at CFA - 16 */
	AT_R15 = 0xe00,	   /* the same by r15 */
	AT_CLONE = 0xf00,
	AT_SWITCH = 0xf80,
	CODE_BYTES = 0x1000,
};

static const struct xp_cfi_row rows[] = {
	{ AT_RSP, 2, XP_CFI_RBP_SAME, XP_CFI_RSP },
	{ AT_PUSHED, 3, -2, XP_CFI_RSP },
	{ AT_RBP, 2, -2, XP_CFI_RBP },
	{ AT_PLT, 11, XP_CFI_RBP_SAME, XP_CFI_PLT },
	{ AT_DEREF, 0, 0, XP_CFI_DEREF },
	{ AT_DEREF_CFA, 1, -3, XP_CFI_DEREF },
	{ AT_SIGNAL, 0, 0, XP_CFI_SIGNAL },
	{ AT_END, 0, 0, XP_CFI_END },
	{ AT_GAP, 0, 0, XP_CFI_NONE },
	{ AT_BIG, 65535, XP_CFI_RBP_SAME, XP_CFI_RSP },
	{ AT_ABOVE, 2, 1, XP_CFI_RSP },
	{ AT_POPPED, 1, -2, XP_CFI_RSP },
	{ AT_R11, XP_CFI_REG_CFA(11, 2), -2, XP_CFI_REG },
	{ AT_R15, XP_CFI_REG_CFA(15, 2), -2, XP_CFI_REG },
	{ AT_CLONE, 0, 0, XP_CFI_CLONE },
	{ AT_SWITCH, 0, 0, XP_CFI_SWITCH },
	{ CODE_BYTES, 0, 0, XP_CFI_NONE },
};
static const struct xp_cfi_deref derefs[] = {
	{ .offset = -8, .base = XP_CFI_BASE_RBP, .rbp_base = XP_CFI_BASE_RBP },
	{ .offset = 8, .add = 16, .base = XP_CFI_BASE_RSP, .rbp_base = XP_CFI_BASE_CFA },
};

static struct xp_file file = { .index = 0, .kind = XP_FILE_DISK, .path = "/bin/program" };
static struct xp_file jit_file = { .index = 1, .kind = XP_FILE_ANON, .path = "//anon" };
#define JIT 0x500000ull

static struct xp_cfi_table *table;
static bool is_being_made;
static unsigned int lookups;

static int find_table(void *arg, const struct xp_file *of, uint64_t offset, const struct xp_cfi_table **found)
{
	(void)arg;
	(void)offset;
	lookups++;
	*found = of == &file && !is_being_made ? table : NULL;
	return of == &file && is_being_made ? -EAGAIN : 0;
}

/* A thread and the result of its walk. */
struct world {
	struct xp_unwinder *unwinder;
	struct xp_address_space space;
	struct xp_unwind_thread thread;
	_Alignas(8) uint8_t stack[XP_STACK_BYTES_MAX];
	struct xp_frame frames[XP_UNWIND_FRAMES_MAX];
	struct xp_unwind_result result;
};

static struct world *new_world(bool by_frame_pointer)
{
	const struct xp_vma code = { CODE, CODE + CODE_BYTES, 0, &file };
	const struct xp_vma jit = { JIT, JIT + 0x1000, 0, &jit_file };
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	assert_int_equal(xp_unwinder_new(&world->unwinder, find_table, NULL, by_frame_pointer), 0);
	assert_int_equal(xp_address_space_map(&world->space, &code), 0);
	assert_int_equal(xp_address_space_map(&world->space, &jit), 0);
	world->thread = (struct xp_unwind_thread){ .sp = SP, .stack = world->stack, .stack_bytes = 4096 };
	is_being_made = false;
	return world;
}

static void free_world(struct world *world)
{
	xp_unwinder_free(world->unwinder);
	xp_address_space_free(&world->space);
	free(world);
}

static void put(struct world *world, uint64_t address, uint64_t word)
{
	assert_true(address >= world->thread.sp && address - world->thread.sp + 8 <= sizeof(world->stack));
	memcpy(world->stack + (address - world->thread.sp), &word, sizeof(word));
}

static void unwind(struct world *world)
{
	xp_unwind(world->unwinder, &world->space, &world->thread, true, world->frames, &world->result);
}

static void check(struct world *world, enum xp_unwind_end end, const uint64_t *addresses, size_t count)
{
	unwind(world);
	assert_string_equal(xp_unwind_end_key(world->result.end), xp_unwind_end_key(end));
	assert_int_equal(world->result.count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(world->frames[i].address, addresses[i]);
}
#define CHECK(world, end, ...)                                                                                         \
	do {                                                                                                           \
		const uint64_t addresses_[] = { __VA_ARGS__ };                                                         \
		check(world, end, addresses_, XP_ARRAY_SIZE(addresses_));                                              \
	} while (0)

/* One frame for each rule, each leading to the next; `main` is last. */

TEST(test_rsp)
{
	struct world *world = new_world(false);

	world->thread.ip = CODE + AT_RSP + 4;
	put(world, SP + 8, CODE + AT_RSP + 0x20);
	put(world, SP + 24, CODE + AT_PUSHED + 0x20);
	put(world, SP + 40, 0x1234); /* rbp that AT_PUSHED saved: CFA = SP + 56 */
	put(world, SP + 48, CODE + AT_END + 1);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_RSP + 4, CODE + AT_RSP + 0x20, CODE + AT_PUSHED + 0x20,
	      CODE + AT_END + 1);
	assert_int_equal(world->result.used_bytes, 56);
	for (int i = 0; i < 4; i++) {
		assert_ptr_equal(world->frames[i].vma->file, &file);
		assert_false(world->frames[i].interrupted);
	}
	free_world(world);
}

TEST(test_rbp)
{
	struct world *world = new_world(false);

	world->thread.ip = CODE + AT_RBP + 4;
	world->thread.bp = SP + 64;
	put(world, SP + 64, SP + 128); /* the caller's */
	put(world, SP + 72, CODE + AT_RBP + 0x30);
	put(world, SP + 128, 0);
	put(world, SP + 136, CODE + AT_END + 1);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_RBP + 4, CODE + AT_RBP + 0x30, CODE + AT_END + 1);
	assert_int_equal(world->result.used_bytes, 144);
	free_world(world);
}

/* All registers of the sampled function are known; of its caller's registers, those that a callee need not save. */
TEST(test_register)
{
	struct world *world = new_world(false);
	const __u64 regs[XP_SAMPLE_REGS] = { [9] = SP + 256, [13] = SP + 256 }; /* r11, r15 */

	world->thread.ip = CODE + AT_R11 + 4;
	put(world, SP + 256, SP + 512); /* rbp, saved at CFA - 16 */
	put(world, SP + 264, CODE + AT_RBP + 0x30);
	put(world, SP + 520, CODE + AT_R11 + 0x30);
	CHECK(world, XP_UNWIND_NO_RULE, CODE + AT_R11 + 4);
	world->thread.regs = regs;
	CHECK(world, XP_UNWIND_NO_RULE, CODE + AT_R11 + 4, CODE + AT_RBP + 0x30, CODE + AT_R11 + 0x30);
	put(world, SP + 520, CODE + AT_END + 1);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_R11 + 4, CODE + AT_RBP + 0x30, CODE + AT_END + 1);
	world->thread.ip = CODE + AT_RSP + 4;
	put(world, SP + 8, CODE + AT_R11 + 4);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_RSP + 4, CODE + AT_R11 + 4, CODE + AT_RBP + 0x30, CODE + AT_END + 1);
	put(world, SP + 8, CODE + AT_R15 + 4);
	CHECK(world, XP_UNWIND_NO_RULE, CODE + AT_RSP + 4, CODE + AT_R15 + 4);
	world->thread.ip = CODE + AT_R15 + 4;
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_R15 + 4, CODE + AT_RBP + 0x30, CODE + AT_END + 1);
	free_world(world);
}

/* An rbp saved by a frame in between is the one that the outer frame needs. */
TEST(test_rbp_through_frames)
{
	struct world *world = new_world(false);

	world->thread.ip = CODE + AT_PUSHED;
	world->thread.bp = 0xdeadbeef;
	put(world, SP + 8, SP + 48);
	put(world, SP + 16, CODE + AT_RSP + 1);
	put(world, SP + 32, CODE + AT_RBP + 1);
	put(world, SP + 48, 0);
	put(world, SP + 56, CODE + AT_END + 1);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_PUSHED, CODE + AT_RSP + 1, CODE + AT_RBP + 1, CODE + AT_END + 1);
	free_world(world);
}

TEST(test_plt)
{
	struct world *world = new_world(false);

	put(world, SP, CODE + AT_END + 1);
	put(world, SP + 8, CODE + AT_END + 2);
	world->thread.ip = CODE + AT_PLT + 0x1a; /* before the push */
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_PLT + 0x1a, CODE + AT_END + 1);
	world->thread.ip = CODE + AT_PLT + 0x1b; /* after it */
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_PLT + 0x1b, CODE + AT_END + 2);
	free_world(world);
}

TEST(test_deref)
{
	struct world *world = new_world(false);

	world->thread.ip = CODE + AT_DEREF + 5;
	world->thread.bp = SP + 64;
	put(world, SP + 56, SP + 112); /* CFA */
	put(world, SP + 64, SP + 160); /* the caller's rbp */
	put(world, SP + 104, CODE + AT_DEREF_CFA + 1);
	put(world, SP + 120, SP + 144); /* *(rsp + 8): CFA = SP + 160 */
	put(world, SP + 136, SP + 176); /* rbp at CFA - 24 */
	put(world, SP + 152, CODE + AT_RBP + 1);
	put(world, SP + 184, CODE + AT_END + 1);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_DEREF + 5, CODE + AT_DEREF_CFA + 1, CODE + AT_RBP + 1,
	      CODE + AT_END + 1);
	free_world(world);
}

/*
 * The handler returns into the trampoline; the frame below is the interrupted one, at exactly the interrupted
 * instruction.
 */
TEST(test_signal)
{
	struct world *world = new_world(false);
	uint64_t context = SP + 16;

	world->thread.ip = CODE + AT_RSP;
	put(world, SP + 8, CODE + AT_SIGNAL + 1);
	put(world, context + 120, SP + 512);	  /* rbp */
	put(world, context + 160, SP + 400);	  /* rsp */
	put(world, context + 168, CODE + AT_RBP); /* rip: the first byte of the function */
	put(world, SP + 512, 0);
	put(world, SP + 520, CODE + AT_END + 1);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_RSP, CODE + AT_SIGNAL + 1, CODE + AT_RBP, CODE + AT_END + 1);
	assert_false(world->frames[1].interrupted);
	assert_true(world->frames[2].interrupted);
	assert_false(world->frames[3].interrupted);
	free_world(world);
}

/* The handler had a separate stack: the interrupted instruction is known, its caller is not. */
TEST(test_signal_on_other_stack)
{
	struct world *world = new_world(true);
	uint64_t context = SP + 16;

	world->thread.ip = CODE + AT_RSP;
	put(world, SP + 8, CODE + AT_SIGNAL + 1);
	put(world, context + 160, 0x600000);
	put(world, context + 168, CODE + AT_RSP);
	CHECK(world, XP_UNWIND_OTHER_STACK, CODE + AT_RSP, CODE + AT_SIGNAL + 1, CODE + AT_RSP);
	/* The stack lies within the copy, as when the handler's stack is below it. */
	put(world, context + 160, SP + 2048);
	put(world, SP + 2048 + 8, CODE + AT_END + 1);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_RSP, CODE + AT_SIGNAL + 1, CODE + AT_RSP, CODE + AT_END + 1);
	free_world(world);
}

/* A call that is the last instruction of its function returns, according to the table, into the next one. */
TEST(test_return_behind_the_end)
{
	struct world *world = new_world(false);

	world->thread.ip = CODE + AT_RSP;
	put(world, SP + 8, CODE + AT_PUSHED); /* called at the end of AT_RSP */
	put(world, SP + 24, CODE + AT_END + 1);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_RSP, CODE + AT_PUSHED, CODE + AT_END + 1);
	/* A call at the end of a mapping returns into no mapping. */
	put(world, SP + 8, CODE + CODE_BYTES);
	unwind(world);
	assert_int_equal(world->result.count, 2);
	assert_ptr_equal(world->frames[1].vma->file, &file);
	/* So does a system call, which the sample is in. */
	world->thread.ip = CODE + AT_GAP;
	CHECK(world, XP_UNWIND_NO_RULE, CODE + AT_GAP);
	world->thread.in_syscall = true;
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_GAP);
	free_world(world);
}

TEST(test_frame_pointer)
{
	struct world *world = new_world(true);

	world->thread.ip = JIT + 0x10;
	world->thread.bp = SP + 64;
	put(world, SP + 64, SP + 96);
	put(world, SP + 72, CODE + AT_GAP + 1);
	put(world, SP + 96, 0);
	put(world, SP + 104, JIT + 0x20);
	/* rbp is zero in the outermost frame. */
	CHECK(world, XP_UNWIND_COMPLETE, JIT + 0x10, CODE + AT_GAP + 1, JIT + 0x20);
	/* A return address of zero belongs to no frame. */
	put(world, SP + 72, 0);
	CHECK(world, XP_UNWIND_COMPLETE, JIT + 0x10);
	free_world(world);

	world = new_world(false);
	world->thread.ip = JIT + 0x10;
	world->thread.bp = SP + 64;
	CHECK(world, XP_UNWIND_NO_TABLE, JIT + 0x10);
	world->thread.ip = CODE + AT_GAP;
	CHECK(world, XP_UNWIND_NO_RULE, CODE + AT_GAP);
	free_world(world);
}

/* An invalid frame pointer is not followed, and does not count as the end. */
TEST(test_no_frame_pointer)
{
	struct world *world = new_world(true);
	static const uint64_t bad[] = { 0, 1, SP - 8, SP + 63, SP + XP_STACK_BYTES_MAX, 1ull << 47, UINT64_MAX - 7 };

	put(world, SP + 72, CODE + AT_END + 1);
	for (size_t i = 0; i < XP_ARRAY_SIZE(bad); i++) {
		world->thread.bp = bad[i];
		world->thread.ip = JIT + 0x10;
		CHECK(world, XP_UNWIND_NO_TABLE, JIT + 0x10);
		world->thread.ip = CODE + AT_GAP;
		CHECK(world, XP_UNWIND_NO_RULE, CODE + AT_GAP);
	}
	/* It points into the stack, but to no return address. */
	world->thread.bp = SP + 128;
	put(world, SP + 136, 0x1234567);
	CHECK(world, XP_UNWIND_NO_RULE, CODE + AT_GAP);
	free_world(world);
}

/* A stack that is empty up to its start has no more frames. */
TEST(test_empty_stack)
{
	struct world *world = new_world(false);

	world->thread.ip = CODE + AT_GAP;
	world->thread.is_whole = true;
	world->thread.stack_bytes = 0;
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_GAP);
	world->thread.ip = CODE + AT_RSP;
	world->thread.stack_bytes = 16;
	put(world, SP + 8, CODE + AT_GAP + 1);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_RSP, CODE + AT_GAP + 1);
	/* The part that could not be copied may have more. */
	world->thread.stack_missing = 2;
	CHECK(world, XP_UNWIND_NO_RULE, CODE + AT_RSP, CODE + AT_GAP + 1);
	world->thread.stack_missing = 0;
	world->thread.stack_bytes = 24;
	CHECK(world, XP_UNWIND_NO_RULE, CODE + AT_RSP, CODE + AT_GAP + 1);
	world->thread.stack_bytes = 16;
	world->thread.is_whole = false;
	CHECK(world, XP_UNWIND_NO_RULE, CODE + AT_RSP, CODE + AT_GAP + 1);
	free_world(world);
}

/* The first instruction of a program may have an ordinary rule, and an entry that ends the stack after it. */
TEST(test_first_instruction)
{
	struct world *world = new_world(true);

	world->thread.ip = CODE + AT_RSP;
	world->thread.is_whole = true;
	world->thread.stack_bytes = 0;
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_RSP);
	world->thread.is_whole = false;
	CHECK(world, XP_UNWIND_TRUNCATED, CODE + AT_RSP);
	free_world(world);
}

/* After the system call of clone3(): in the parent, and in the child on its new stack. */
TEST(test_clone)
{
	struct world *world = new_world(true);

	world->thread.ip = CODE + AT_CLONE;
	world->thread.bp = SP + 64;
	put(world, SP, CODE + AT_RBP + 1);
	put(world, SP + 64, 0);
	put(world, SP + 72, CODE + AT_END + 1);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_CLONE, CODE + AT_RBP + 1, CODE + AT_END + 1);
	put(world, SP, 0);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_CLONE);
	put(world, SP, SP + 128);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_CLONE);
	world->thread.stack_bytes = 0;
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_CLONE);
	free_world(world);
}

/* After `pop %rbp` the table still has the old slot: below the stack pointer, where it is no longer valid. */
TEST(test_epilogue)
{
	struct world *world = new_world(false);

	world->thread.ip = CODE + AT_POPPED;
	world->thread.bp = SP + 64;
	put(world, SP, CODE + AT_RBP + 1);
	put(world, SP + 72, CODE + AT_END + 1);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_POPPED, CODE + AT_RBP + 1, CODE + AT_END + 1);
	free_world(world);
}

/* Unusual, but allowed in tables. */
TEST(test_saved_above)
{
	struct world *world = new_world(false);

	world->thread.ip = CODE + AT_RSP;
	put(world, SP + 8, CODE + AT_ABOVE + 1); /* CFA = SP + 32 */
	put(world, SP + 24, CODE + AT_END + 1);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_RSP, CODE + AT_ABOVE + 1, CODE + AT_END + 1);
	assert_int_equal(world->result.used_bytes, 48);
	free_world(world);
}

/* Reasons for the end of walks. */

TEST(test_truncated)
{
	struct world *world = new_world(false);

	world->thread.ip = CODE + AT_BIG;
	CHECK(world, XP_UNWIND_TRUNCATED, CODE + AT_BIG);
	world->thread.ip = CODE + AT_RSP;
	put(world, SP + 8, CODE + AT_END + 1);
	world->thread.stack_bytes = 15;
	CHECK(world, XP_UNWIND_TRUNCATED, CODE + AT_RSP);
	world->thread.stack_bytes = 16;
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_RSP, CODE + AT_END + 1);
	world->thread.stack_bytes = 0;
	world->thread.stack = NULL;
	CHECK(world, XP_UNWIND_TRUNCATED, CODE + AT_RSP);
	assert_int_equal(world->result.used_bytes, 0);
	/* There is nothing above the start of the stack. */
	world->thread.is_whole = true;
	world->thread.stack = world->stack;
	world->thread.stack_bytes = 8;
	CHECK(world, XP_UNWIND_OTHER_STACK, CODE + AT_RSP);
	free_world(world);
}

TEST(test_not_resident)
{
	struct world *world = new_world(false);

	world->thread.sp = SP + 4096 - 16; /* the first piece has two words */
	world->thread.stack_bytes = 16 + 2 * 4096;
	world->thread.ip = CODE + AT_RSP;
	put(world, SP + 4096 - 8, CODE + AT_RSP + 1);
	put(world, SP + 4096 + 8, CODE + AT_END + 1);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_RSP, CODE + AT_RSP + 1, CODE + AT_END + 1);
	world->thread.stack_missing = 1 << 2;
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_RSP, CODE + AT_RSP + 1, CODE + AT_END + 1);
	world->thread.stack_missing = 1 << 1;
	CHECK(world, XP_UNWIND_NOT_RESIDENT, CODE + AT_RSP, CODE + AT_RSP + 1);
	world->thread.stack_missing = 1 << 0;
	CHECK(world, XP_UNWIND_NOT_RESIDENT, CODE + AT_RSP);
	/* After the end of the copy, because it could not be read. */
	world->thread.stack_missing = 1 << 1;
	world->thread.stack_bytes = 16;
	CHECK(world, XP_UNWIND_NOT_RESIDENT, CODE + AT_RSP, CODE + AT_RSP + 1);
	free_world(world);
}

/* Between the trampoline of a probe and the probed nop, the kernel changes ip and rsp one after the other. */
TEST(test_trampoline)
{
	static struct xp_file trampoline_file = { .index = 2, .kind = XP_FILE_ANON, .path = "[uprobes-trampoline]" };
	const struct xp_vma trampoline = { JIT + 0x2000, JIT + 0x3000, 0, &trampoline_file };
	const uint64_t behind_call = JIT + 0x2000 + 0xd;
	struct world *world = new_world(true);

	assert_int_equal(xp_address_space_map(&world->space, &trampoline), 0);
	/* In the trampoline, with its three words and the return address after the nop. */
	world->thread.ip = behind_call;
	put(world, SP, 0x47);
	put(world, SP + 24, CODE + AT_RSP + 5);
	put(world, SP + 40, CODE + AT_END + 1);
	CHECK(world, XP_UNWIND_COMPLETE, behind_call, CODE + AT_RSP + 5, CODE + AT_END + 1);
	/* At the nop, with the words of the trampoline. */
	world->thread.ip = CODE + AT_RSP;
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_RSP, CODE + AT_END + 1);
	/* In the trampoline, with the words of the nop only. */
	world->thread.ip = behind_call;
	put(world, SP, CODE + AT_END + 1);
	put(world, SP + 24, 0x47);
	CHECK(world, XP_UNWIND_COMPLETE, behind_call, CODE + AT_END + 1);
	free_world(world);
}

TEST(test_other_stack_by_rule)
{
	struct world *world = new_world(true);

	world->thread.ip = CODE + AT_RSP;
	put(world, SP + 8, CODE + AT_SWITCH + 1);
	put(world, SP + 16, CODE + AT_END + 1);
	CHECK(world, XP_UNWIND_OTHER_STACK, CODE + AT_RSP, CODE + AT_SWITCH + 1);
	free_world(world);
}

TEST(test_bad_return)
{
	struct world *world = new_world(true);

	world->thread.ip = CODE + AT_RSP;
	put(world, SP + 8, 0x41414141);
	CHECK(world, XP_UNWIND_BAD_RETURN, CODE + AT_RSP);
	put(world, SP + 8, 0xffffffff81000000);
	CHECK(world, XP_UNWIND_BAD_RETURN, CODE + AT_RSP);
	put(world, SP + 8, CODE + AT_SIGNAL + 1);
	put(world, SP + 16 + 168, 0x41414141);
	CHECK(world, XP_UNWIND_BAD_RETURN, CODE + AT_RSP, CODE + AT_SIGNAL + 1);
	/* The sampled instruction itself is always reported. */
	world->thread.ip = 0x41414141;
	CHECK(world, XP_UNWIND_NO_TABLE, 0x41414141);
	assert_null(world->frames[0].vma);
	free_world(world);
}

TEST(test_32_bit)
{
	struct xp_file vdso_file = { .index = 2, .kind = XP_FILE_VDSO, .path = "[vdso]" };
	struct xp_vma vdso = { 0xf7fc7000, 0xf7fc9000, 0, &vdso_file };
	struct world *world = new_world(true);

	world->thread.ip = CODE + AT_RSP;
	put(world, SP + 8, CODE + AT_RBP + 1);
	assert_int_equal(xp_address_space_map(&world->space, &vdso), 0);
	CHECK(world, XP_UNWIND_32_BIT, CODE + AT_RSP);
	free_world(world);
	world = new_world(true);
	world->thread.ip = CODE + AT_RSP;
	put(world, SP + 8, 0x41414141);
	vdso.start += 0x7ffe00000000;
	vdso.end += 0x7ffe00000000;
	assert_int_equal(xp_address_space_map(&world->space, &vdso), 0);
	CHECK(world, XP_UNWIND_BAD_RETURN, CODE + AT_RSP);
	free_world(world);
}

TEST(test_loop)
{
	struct world *world = new_world(true);

	/* CFA below the stack pointer. */
	world->thread.ip = CODE + AT_RBP;
	world->thread.bp = SP - 64;
	CHECK(world, XP_UNWIND_LOOP, CODE + AT_RBP);
	/* The saved frame pointer points to itself. */
	world->thread.bp = SP + 64;
	put(world, SP + 64, SP + 64);
	put(world, SP + 72, CODE + AT_RBP + 1);
	CHECK(world, XP_UNWIND_LOOP, CODE + AT_RBP, CODE + AT_RBP + 1);
	world->thread.ip = JIT;
	put(world, SP + 72, JIT + 1);
	CHECK(world, XP_UNWIND_NO_TABLE, JIT, JIT + 1);
	/* A signal frame that leads to itself. */
	world->thread.ip = CODE + AT_SIGNAL;
	put(world, SP + 160, SP);
	put(world, SP + 168, CODE + AT_SIGNAL);
	unwind(world);
	assert_int_equal(world->result.end, XP_UNWIND_DEEP);
	assert_int_equal(world->result.count, XP_UNWIND_FRAMES_MAX);
	free_world(world);
}

TEST(test_deep)
{
	struct world *world = new_world(false);

	world->thread.ip = CODE + AT_RSP;
	world->thread.stack_bytes = XP_STACK_BYTES_MAX;
	for (uint64_t at = 8; at < XP_STACK_BYTES_MAX; at += 16)
		put(world, SP + at, CODE + AT_RSP + 1);
	put(world, SP + 16 * (XP_UNWIND_FRAMES_MAX - 2) + 8, CODE + AT_END + 1);
	unwind(world);
	assert_int_equal(world->result.end, XP_UNWIND_COMPLETE);
	assert_int_equal(world->result.count, XP_UNWIND_FRAMES_MAX);
	put(world, SP + 16 * (XP_UNWIND_FRAMES_MAX - 2) + 8, CODE + AT_RSP + 1);
	for (uint64_t sp = SP + 64; sp >= SP; sp -= 16) { /* the last one reaches less far up */
		world->thread.sp = sp;
		world->thread.stack = world->stack + (sp - SP);
		unwind(world);
		assert_int_equal(world->result.end, XP_UNWIND_DEEP);
		assert_int_equal(world->result.count, XP_UNWIND_FRAMES_MAX);
	}
	free_world(world);
}

/* Registers at the ends of the address space: sums wrap, and nothing outside the copy is read. */
TEST(test_extreme_registers)
{
	static const uint64_t extreme[] = {
		0, 7, 8, SP, SP + 4088, 1ull << 63, UINT64_MAX - 4096, UINT64_MAX - 8, UINT64_MAX
	};
	static const uint64_t places[] = { AT_RSP,	 AT_PUSHED, AT_RBP, AT_PLT, AT_DEREF,
					   AT_DEREF_CFA, AT_SIGNAL, AT_GAP, AT_BIG };
	struct world *world = new_world(true);

	memset(world->stack, 0xff, sizeof(world->stack));
	for (size_t sp = 0; sp < XP_ARRAY_SIZE(extreme); sp++)
		for (size_t bp = 0; bp < XP_ARRAY_SIZE(extreme); bp++)
			for (size_t place = 0; place < XP_ARRAY_SIZE(places); place++) {
				world->thread.sp = extreme[sp];
				world->thread.bp = extreme[bp];
				world->thread.ip = CODE + places[place];
				unwind(world);
				assert_int_not_equal(world->result.end, XP_UNWIND_COMPLETE);
				assert_int_equal(world->result.count, 1);
			}
	free_world(world);
}

/* Tables that are not ready yet, and cached rules. */

TEST(test_waits)
{
	struct world *world = new_world(true);

	world->thread.ip = JIT;
	world->thread.bp = SP + 64;
	put(world, SP + 64, SP + 128);
	put(world, SP + 72, CODE + AT_RBP + 1);
	put(world, SP + 128, 0);
	put(world, SP + 136, CODE + AT_END + 1);
	is_being_made = true;
	unwind(world);
	assert_int_equal(world->result.end, XP_UNWIND_WAITS);
	assert_ptr_equal(world->result.file, &file);
	/* Without time to wait the frame pointer is used, but the stack does not count as complete. */
	xp_unwind(world->unwinder, &world->space, &world->thread, false, world->frames, &world->result);
	assert_int_equal(world->result.end, XP_UNWIND_TABLE_LATE);
	assert_int_equal(world->result.count, 3);
	/* And an unknown rule is not cached as such. */
	is_being_made = false;
	CHECK(world, XP_UNWIND_COMPLETE, JIT, CODE + AT_RBP + 1, CODE + AT_END + 1);
	free_world(world);
}

TEST(test_rules_are_remembered)
{
	struct world *world = new_world(false);
	unsigned int first;

	world->thread.ip = CODE + AT_RSP;
	put(world, SP + 8, CODE + AT_PUSHED + 1);
	put(world, SP + 32, CODE + AT_END + 1);
	unwind(world);
	assert_int_equal(world->result.end, XP_UNWIND_COMPLETE);
	first = lookups;
	unwind(world);
	assert_int_equal(world->result.end, XP_UNWIND_COMPLETE);
	assert_int_equal(lookups, first);
	free_world(world);
}

/* A table whose rules are all cached still counts as used. */
TEST(test_tables_are_told_of)
{
	enum { WALKS = 1600, FRAMES = 3 };
	struct world *world = new_world(false);
	unsigned int first;

	world->thread.ip = CODE + AT_RSP;
	put(world, SP + 8, CODE + AT_PUSHED + 1);
	put(world, SP + 32, CODE + AT_END + 1);
	unwind(world);
	assert_int_equal(world->result.count, FRAMES);
	first = lookups;
	for (int i = 0; i < WALKS; i++)
		xp_unwind(world->unwinder, &world->space, &world->thread, true, world->frames, &world->result);
	assert_in_range(lookups - first, WALKS * FRAMES / 32, WALKS * FRAMES / 8);
	free_world(world);
}

/* JIT code with rules for [JIT, JIT + 0x100), which may change. */
static struct {
	uint16_t cfa; /* words from rsp; 0: no rule */
	int err;
	unsigned int calls;
} jit;

static int find_jit(void *arg, uint64_t address, struct xp_cfi_found *found)
{
	(void)arg;
	jit.calls++;
	if (jit.err || !jit.cfa || address - JIT >= 0x100)
		return jit.err ?: -ENOENT;
	*found = (struct xp_cfi_found){ .row = { 0, jit.cfa, XP_CFI_RBP_SAME, XP_CFI_RSP } };
	return 0;
}

static struct world *new_jit_world(bool by_frame_pointer)
{
	static struct xp_unwind_code code;
	struct world *world = new_world(by_frame_pointer);

	code = (struct xp_unwind_code){ find_jit, NULL };
	jit.cfa = 2;
	jit.err = 0;
	jit.calls = 0;
	world->thread.code = &code;
	world->thread.ip = JIT + 4;
	world->thread.bp = SP + 64; /* a frame, although not one of this code */
	put(world, SP + 8, JIT + 0xff);
	put(world, SP + 16, CODE + AT_END + 3);
	put(world, SP + 24, JIT + 0x20);
	put(world, SP + 40, CODE + AT_END + 1);
	put(world, SP + 64, 0);
	put(world, SP + 72, CODE + AT_END + 2);
	return world;
}

/* JIT code with unwinding data, in which the address before a return address counts. */
TEST(test_jit_rules)
{
	struct world *world = new_jit_world(true);

	CHECK(world, XP_UNWIND_COMPLETE, JIT + 4, JIT + 0xff, JIT + 0x20, CODE + AT_END + 1);
	assert_int_equal(world->result.used_bytes, 48);
	/* The result of the last walk does not affect this one. */
	jit.cfa = 3;
	CHECK(world, XP_UNWIND_COMPLETE, JIT + 4, CODE + AT_END + 3);
	jit.cfa = 2;
	CHECK(world, XP_UNWIND_COMPLETE, JIT + 4, JIT + 0xff, JIT + 0x20, CODE + AT_END + 1);
	jit.cfa = 0; /* not any more */
	CHECK(world, XP_UNWIND_COMPLETE, JIT + 4, CODE + AT_END + 2);
	world->thread.ip = CODE + AT_RSP;
	jit.calls = 0;
	put(world, SP + 8, CODE + AT_END + 1);
	CHECK(world, XP_UNWIND_COMPLETE, CODE + AT_RSP, CODE + AT_END + 1);
	assert_int_equal(jit.calls, 0); /* code of files */
	free_world(world);
	world = new_jit_world(false);
	CHECK(world, XP_UNWIND_COMPLETE, JIT + 4, JIT + 0xff, JIT + 0x20, CODE + AT_END + 1);
	jit.cfa = 0;
	CHECK(world, XP_UNWIND_NO_TABLE, JIT + 4);
	free_world(world);
}

/* Code that may be known soon is waited for; without time, its frame pointer is used. */
TEST(test_jit_rules_later)
{
	struct world *world = new_jit_world(true);

	jit.err = -EAGAIN;
	unwind(world);
	assert_int_equal(world->result.end, XP_UNWIND_WAITS);
	assert_null(world->result.file);
	assert_int_equal(world->result.file_offset, 4);
	xp_unwind(world->unwinder, &world->space, &world->thread, false, world->frames, &world->result);
	assert_int_equal(world->result.end, XP_UNWIND_COMPLETE);
	assert_int_equal(world->result.count, 2);
	assert_int_equal(world->frames[1].address, CODE + AT_END + 2);
	free_world(world);
}

int unit_set_up(void **state)
{
	(void)state;
	table = make_table(rows, XP_ARRAY_SIZE(rows), derefs, XP_ARRAY_SIZE(derefs));
	return 0;
}

TEST(test_counts_of_ends)
{
	uint64_t ends[XP_UNWIND_ENDS] = { 0 };
	char text[XP_UNWIND_ENDS_TEXT_BYTES];

	assert_null(xp_unwind_ends_text(text, ends));
	assert_false(xp_unwind_ends_lack_many(ends));
	ends[XP_UNWIND_COMPLETE] = 9500;
	assert_null(xp_unwind_ends_text(text, ends));
	ends[XP_UNWIND_TRUNCATED] = 100;
	ends[XP_UNWIND_TABLE_LATE] = 400;
	assert_string_equal(xp_unwind_ends_text(text, ends), "95.0 % of 10000 user stacks are complete; 400: unwind "
							     "table not built in time; 100: deeper than the copied "
							     "part");
	assert_false(xp_unwind_ends_lack_many(ends));
	ends[XP_UNWIND_LOOP] = 1;
	assert_true(xp_unwind_ends_lack_many(ends));
	for (int end = 0; end < XP_UNWIND_ENDS; end++)
		ends[end] = UINT64_MAX;
	assert_true(strlen(xp_unwind_ends_text(text, ends)) < sizeof(text) - 1);
	assert_true(xp_unwind_ends_lack_many(ends));
}

int unit_tear_down(void **state)
{
	(void)state;
	xp_cfi_table_free(table);
	return 0;
}
