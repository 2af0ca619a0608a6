/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/unwind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/x86_64/code_shapes.h"
#include "base/util.h"
#include "xprof/event.h"

/* ---- the rule for an instruction: in the table of its file, or in the unwinding data of JIT code ---- */

/* Cache of rules by file and offset; direct-mapped. The rules of a file never change, so entries never become stale. */
#define RULES_CACHE_BITS 14

struct cached_rule {
	uint64_t key; /* 0: empty */
	struct xp_cfi_found found;
};

/* Zeroed except for table and arg, which the caller sets. */
struct rules {
	xp_unwind_table table;
	void *arg;
	struct cached_rule cache[1 << RULES_CACHE_BITS];
};

struct rule {
	struct xp_cfi_found found; /* its rule is XP_CFI_NONE if none was found */
	bool has_table;		   /* the mapping's file has a table, but perhaps no rule for the address */
	bool is_late;		   /* the file's table is being made */
	bool is_code_late;	   /* true: JIT code may get a rule soon */
};

static const struct xp_cfi_row no_row = { .rule = XP_CFI_NONE };

static struct xp_cfi_row trampoline_row(uint64_t offset)
{
	uint16_t words = (uint16_t)xp_uprobe_trampoline_words(offset);

	return words ? (struct xp_cfi_row){ .cfa = words, .rbp = XP_CFI_RBP_SAME, .rule = XP_CFI_RSP } : no_row;
}

static void find_in_table(const struct rules *rules, const struct xp_file *file, uint64_t offset, struct rule *rule)
{
	const struct xp_cfi_table *table = NULL;

	rule->is_late = rules->table(rules->arg, file, offset, &table) == -EAGAIN;
	rule->has_table = table;
	if (!table)
		return;
	rule->found.row = *xp_cfi_find(table, offset);
	if (rule->found.row.rule == XP_CFI_DEREF)
		rule->found.deref = *xp_cfi_deref(table, &rule->found.row);
}

static void find_in_file(struct rules *rules, const struct xp_file *file, uint64_t offset, struct rule *rule)
{
	struct cached_rule *cached;
	uint64_t key;

	if (offset > UINT32_MAX || file->index >= UINT32_MAX - 1) {
		find_in_table(rules, file, offset, rule);
		return;
	}
	key = (file->index + 1) << 32 | offset;
	cached = &rules->cache[key * 0x9e3779b97f4a7c15ull >> (64 - RULES_CACHE_BITS)];
	if (cached->key == key) {
		rule->found = cached->found;
		rule->has_table = true;
		return;
	}
	find_in_table(rules, file, offset, rule);
	if (rule->found.row.rule != XP_CFI_NONE)
		*cached = (struct cached_rule){ key, rule->found };
}

static void find_in_code(const struct xp_unwind_code *code, uint64_t address, struct rule *rule)
{
	int err = code->find(code->arg, address, &rule->found);

	rule->is_code_late = err == -EAGAIN;
}

/* Finds the rule for an address in this mapping. code: as in struct xp_unwind_thread. */
static void look_up(struct rules *rules, const struct xp_unwind_code *code, const struct xp_vma *vma, uint64_t address,
		    struct rule *rule)
{
	*rule = (struct rule){ .found.row = no_row };
	if (xp_file_is_trampoline(vma->file)) {
		rule->found.row = trampoline_row(address - vma->start);
		return;
	}
	find_in_file(rules, vma->file, vma->file_offset + (address - vma->start), rule);
	if (rule->found.row.rule == XP_CFI_NONE && !rule->is_late && code && xp_file_may_be_jit(vma->file))
		find_in_code(code, address, rule);
}

/* ---- a walk ---- */

/* One of this many walks reports which tables it used. */
#define TELL_EVERY 16

struct xp_unwinder {
	struct rules rules;
	bool by_frame_pointer;
	uint64_t random;
};

/* The registers of a frame while its caller is searched for. */
struct walk {
	struct xp_unwinder *unwinder;
	const struct xp_address_space *space;
	const struct xp_unwind_thread *thread;
	bool has_time;
	uint64_t ip;
	uint64_t sp;
	uint64_t bp;
	const __u64 *regs; /* the other registers as sampled, valid for the leaf and its caller; NULL: unknown */
	const struct xp_vma *vma;
	bool is_return;	   /* ip is a return address: the call comes before it */
	bool has_table;	   /* the mapping's file has a table, but perhaps no rule for ip */
	bool is_late;	   /* a table that the walk needed was late */
	bool is_elsewhere; /* sp is outside of the copy */
	uint32_t used_bytes;
	const struct xp_file *file;
	uint64_t file_offset;
	enum xp_unwind_end end;
};

/* Offsets in the ucontext_t (uc_mcontext.gregs) that the kernel pushes before it calls a signal handler. */
#define UCONTEXT_RBP 120
#define UCONTEXT_RSP 160
#define UCONTEXT_RIP 168

int xp_unwinder_new(struct xp_unwinder **unwinder, xp_unwind_table table, void *arg, bool by_frame_pointer)
{
	*unwinder = calloc(1, sizeof(**unwinder));
	if (!*unwinder)
		return -ENOMEM;
	(*unwinder)->rules.table = table;
	(*unwinder)->rules.arg = arg;
	(*unwinder)->by_frame_pointer = by_frame_pointer;
	return 0;
}

void xp_unwinder_free(struct xp_unwinder *unwinder)
{
	free(unwinder);
}

static bool ends(struct walk *walk, enum xp_unwind_end end)
{
	walk->end = end;
	return false;
}

/* ---- the stack ---- */

static bool is_missing(const struct xp_unwind_thread *thread, uint64_t offset)
{
	uint64_t piece = (thread->sp % XP_STACK_PAGE_BYTES + offset) / XP_STACK_PAGE_BYTES;

	return piece < 32 && thread->stack_missing >> piece & 1;
}

static bool read_word(struct walk *walk, uint64_t address, uint64_t *value)
{
	const struct xp_unwind_thread *thread = walk->thread;
	uint64_t offset = address - thread->sp;

	if (address < thread->sp)
		return ends(walk, XP_UNWIND_OTHER_STACK);
	if (thread->stack_missing && offset < XP_STACK_BYTES_MAX &&
	    (is_missing(thread, offset) || is_missing(thread, offset + 7)))
		return ends(walk, XP_UNWIND_NOT_RESIDENT);
	if (offset > thread->stack_bytes || thread->stack_bytes - offset < sizeof(*value))
		return ends(walk, thread->is_whole ? XP_UNWIND_OTHER_STACK : XP_UNWIND_TRUNCATED);
	memcpy(value, thread->stack + offset, sizeof(*value));
	walk->used_bytes = XP_MAX(walk->used_bytes, (uint32_t)(offset + sizeof(*value)));
	return true;
}

/* Like read_word(), but does not record the read. Only for a stack without missing pages. */
static bool peek(const struct xp_unwind_thread *thread, uint64_t address, uint64_t *value)
{
	uint64_t offset = address - thread->sp;

	if (offset >= thread->stack_bytes || thread->stack_bytes - offset < sizeof(*value))
		return false;
	memcpy(value, thread->stack + offset, sizeof(*value));
	return true;
}

/* ---- rules ---- */

/*
 * Returns whether ip is after the end of its function. A function can end with a system call, as glibc's __restore_rt
 * does.
 */
static bool is_behind_end(const struct walk *walk, const struct rule *rule)
{
	return walk->ip == walk->thread->ip && walk->thread->in_syscall && rule->has_table && !rule->is_late &&
	       rule->found.row.rule == XP_CFI_NONE;
}

/* Finds the rule for the frame. Returns false if the walk has to wait for the rule. */
static bool find_rule(struct walk *walk, struct rule *rule)
{
	uint64_t address = walk->ip - walk->is_return;

	look_up(&walk->unwinder->rules, walk->thread->code, walk->vma, address, rule);
	if (is_behind_end(walk, rule))
		look_up(&walk->unwinder->rules, walk->thread->code, walk->vma, --address, rule);
	walk->has_table = rule->has_table;
	if (!rule->is_late && !rule->is_code_late)
		return true;
	walk->file = rule->is_late ? walk->vma->file : NULL;
	walk->file_offset = walk->vma->file_offset + (address - walk->vma->start);
	if (walk->has_time)
		return ends(walk, XP_UNWIND_WAITS);
	walk->is_late |= rule->is_late;
	return true;
}

static const struct xp_vma *find_vma(const struct walk *walk, uint64_t address)
{
	const struct xp_vma *vma = walk->vma; /* most callers are in the same file as their callee */

	return vma && address >= vma->start && address < vma->end ? vma : xp_address_space_find(walk->space, address);
}

/* Continues the walk at a return address, or ends it. */
static bool go_to(struct walk *walk, uint64_t ip, uint64_t sp, uint64_t bp)
{
	const struct xp_vma *vma;

	if (!ip)
		return ends(walk, XP_UNWIND_COMPLETE);
	vma = find_vma(walk, ip - 1);
	if (!vma)
		return ends(walk, XP_UNWIND_BAD_RETURN);
	if (sp <= walk->sp)
		return ends(walk, XP_UNWIND_LOOP);
	walk->ip = ip;
	walk->sp = sp;
	walk->bp = bp;
	if (walk->is_return)
		walk->regs = NULL;
	walk->vma = vma;
	walk->is_return = true;
	return true;
}

/*
 * Goes to the caller by the frame pointer, because the frame has no rule. why: the reason, which ends the walk if the
 * frame has no frame pointer.
 */
static bool by_frame_pointer(struct walk *walk, enum xp_unwind_end why)
{
	const struct xp_unwind_thread *thread = walk->thread;
	uint64_t bp = walk->bp, ip, next;

	if (!walk->unwinder->by_frame_pointer)
		return ends(walk, why);
	/* System V ABI for x86-64, 3.4.1: rbp is zero in the deepest frame. Interrupted code may use rbp otherwise. */
	if (!bp && walk->is_return)
		return ends(walk, XP_UNWIND_COMPLETE);
	if (bp < walk->sp || bp - thread->sp >= XP_STACK_BYTES_MAX || bp % 8)
		return ends(walk, why);
	if (!read_word(walk, bp, &next) || !read_word(walk, bp + 8, &ip))
		return false;
	if (ip && !find_vma(walk, ip - 1))
		return ends(walk, why);
	walk->regs = NULL;
	return go_to(walk, ip, bp + 16, next);
}

/*
 * Moves to the caller of a frame with a known canonical frame address. saved: address of the caller's rbp; 0: the
 * caller's rbp is still in rbp.
 */
static bool by_cfa(struct walk *walk, uint64_t cfa, uint64_t saved)
{
	uint64_t ip, bp = walk->bp;

	if (cfa <= walk->sp)
		return ends(walk, XP_UNWIND_LOOP);
	if (!read_word(walk, cfa - 8, &ip))
		return false;
	/* The outermost frame has no caller. A sampled function has a caller, unless it is just leaving its frame. */
	if (!ip && !walk->is_return)
		return ends(walk, XP_UNWIND_BAD_RETURN);
	/*
	 * In an epilogue, rbp is already restored, but the tables still give the address where rbp was saved. That
	 * address is below sp, where memory may be overwritten.
	 */
	if (ip && saved && saved >= walk->sp && !read_word(walk, saved, &bp))
		return false;
	return go_to(walk, ip, cfa, bp);
}

static uint64_t saved_bp(const struct xp_cfi_row *row, uint64_t cfa)
{
	return row->rbp == XP_CFI_RBP_SAME ? 0 : cfa + 8 * (int64_t)row->rbp;
}

static uint64_t base_of(const struct walk *walk, uint8_t base)
{
	return base == XP_CFI_BASE_RSP ? walk->sp : walk->bp;
}

static bool by_deref(struct walk *walk, const struct xp_cfi_found *rule)
{
	const struct xp_cfi_deref *deref = &rule->deref;
	uint64_t cfa, saved;

	if (!read_word(walk, base_of(walk, deref->base) + (int64_t)deref->offset, &cfa))
		return false;
	cfa += (int64_t)deref->add;
	saved = deref->rbp_base == XP_CFI_BASE_CFA ? saved_bp(&rule->row, cfa)
						   : base_of(walk, deref->rbp_base) + (int64_t)deref->rbp_offset;
	return by_cfa(walk, cfa, saved);
}

/*
 * Returns whether a register still has the value that it had in this frame. Hand-written loops that realign the stack
 * keep the old stack pointer in a register. Such a loop calls at most a helper function. The helper does not change the
 * register, because the loop requires its value and the ABI does not make the helper restore it. A register that
 * callees save is only known in the leaf.
 */
static bool is_known_register(const struct walk *walk, unsigned int reg)
{
	bool is_saved_by_callees = reg == XP_CFI_REG_RBX || reg >= XP_CFI_REG_R12;

	return walk->regs && !(walk->is_return && is_saved_by_callees);
}

static bool by_register(struct walk *walk, const struct xp_cfi_found *rule)
{
	unsigned int reg = XP_CFI_REG_OF(rule->row.cfa);
	uint64_t cfa;

	walk->has_table = true;
	if (!is_known_register(walk, reg))
		return by_frame_pointer(walk, XP_UNWIND_NO_RULE);
	cfa = walk->regs[reg > XP_CFI_REG_RSP ? reg - 2 : reg] + 8 * (uint64_t)XP_CFI_REG_WORDS(rule->row.cfa);
	return by_cfa(walk, cfa, saved_bp(&rule->row, cfa));
}

/*
 * Moves to the code that a signal interrupted. The code's stack may differ from the handler's stack, but its ip is
 * certain.
 */
static bool by_ucontext(struct walk *walk)
{
	uint64_t ip, sp, bp;

	if (!read_word(walk, walk->sp + UCONTEXT_RIP, &ip) || !read_word(walk, walk->sp + UCONTEXT_RSP, &sp) ||
	    !read_word(walk, walk->sp + UCONTEXT_RBP, &bp))
		return false;
	walk->vma = xp_address_space_find(walk->space, ip);
	if (!walk->vma)
		return ends(walk, XP_UNWIND_BAD_RETURN);
	walk->ip = ip;
	walk->sp = sp;
	walk->bp = bp;
	walk->regs = NULL;
	walk->is_return = false;
	walk->is_elsewhere = sp - walk->thread->sp >= XP_STACK_BYTES_MAX;
	return true;
}

/* Returns whether this is the entry point of a program or of the dynamic linker, which has no caller. */
static bool is_at_start(const struct walk *walk)
{
	const struct xp_unwind_thread *thread = walk->thread;

	return thread->is_whole && !thread->stack_missing && walk->sp - thread->sp == thread->stack_bytes;
}

/* Ends the walk after the system call of clone3() in the child: its stack is new and contains no return address. */
static bool by_clone(struct walk *walk)
{
	uint64_t ip;

	if (!read_word(walk, walk->sp, &ip) || !ip || !find_vma(walk, ip - 1))
		return ends(walk, XP_UNWIND_COMPLETE);
	return by_cfa(walk, walk->sp + 8, 0);
}

static bool by_rule(struct walk *walk, const struct xp_cfi_found *rule)
{
	uint64_t cfa;

	switch (rule->row.rule) {
	case XP_CFI_RSP:
		cfa = walk->sp + 8 * (uint64_t)rule->row.cfa;
		return by_cfa(walk, cfa, saved_bp(&rule->row, cfa));
	case XP_CFI_RBP:
		cfa = walk->bp + 8 * (uint64_t)rule->row.cfa;
		return by_cfa(walk, cfa, saved_bp(&rule->row, cfa));
	case XP_CFI_PLT:
		cfa = walk->sp + 8 + ((walk->ip & 15) >= rule->row.cfa ? 8 : 0);
		return by_cfa(walk, cfa, saved_bp(&rule->row, cfa));
	case XP_CFI_DEREF:
		return by_deref(walk, rule);
	case XP_CFI_REG:
		return by_register(walk, rule);
	case XP_CFI_SIGNAL:
		return by_ucontext(walk);
	case XP_CFI_CLONE:
		return by_clone(walk);
	case XP_CFI_END:
		return ends(walk, XP_UNWIND_COMPLETE);
	case XP_CFI_SWITCH:
		return ends(walk, XP_UNWIND_OTHER_STACK);
	default:
		return by_frame_pointer(walk, walk->has_table ? XP_UNWIND_NO_RULE : XP_UNWIND_NO_TABLE);
	}
}

/*
 * Number of words that the trampoline of a probed nop pushes. In Linux 6.18, the trampoline makes a system call, which
 * pops these words, moves ip to the nop, and later undoes both (sys_uprobe(), arch/x86/kernel/uprobes.c). A sample in
 * between sees only one of the two changes.
 */
#define TRAMPOLINE_WORDS 4
#define CALL_BYTES 5

static bool word_at(const struct walk *walk, unsigned int words, uint64_t *value)
{
	return peek(walk->thread, walk->sp + 8 * words, value);
}

/* Corrects the stack pointer of a sample at the nop that still has the stack of the trampoline. */
static void leave_trampoline(struct walk *walk)
{
	uint64_t ip;

	if (word_at(walk, TRAMPOLINE_WORDS - 1, &ip) && ip == walk->ip + CALL_BYTES)
		walk->sp += 8 * TRAMPOLINE_WORDS;
}

/* Corrects the rule of a sample in the trampoline that already has the stack of the nop. */
static void correct_trampoline(const struct walk *walk, struct xp_cfi_row *row)
{
	uint64_t ip;

	if (row->rule == XP_CFI_RSP && row->cfa == TRAMPOLINE_WORDS && xp_file_is_trampoline(walk->vma->file) &&
	    word_at(walk, TRAMPOLINE_WORDS - 1, &ip) && !find_vma(walk, ip - 1) && word_at(walk, 0, &ip) &&
	    find_vma(walk, ip - 1))
		row->cfa = 1;
}

/* Moves from a frame to its caller. Returns false if there is no caller; walk->end is the reason. */
static bool step(struct walk *walk)
{
	struct rule rule;

	if (walk->is_elsewhere)
		return ends(walk, XP_UNWIND_OTHER_STACK);
	if (xp_address_space_is_32_bit(walk->space))
		return ends(walk, XP_UNWIND_32_BIT);
	if (is_at_start(walk))
		return ends(walk, XP_UNWIND_COMPLETE);
	if (!walk->vma)
		return by_frame_pointer(walk, XP_UNWIND_NO_TABLE);
	if (!find_rule(walk, &rule))
		return false;
	if (!walk->is_return)
		correct_trampoline(walk, &rule.found.row);
	return by_rule(walk, &rule.found);
}

/* ---- the walk ---- */

/*
 * Reports the used tables of one walk in TELL_EVERY. A lookup in the rule cache does not update the last use of the
 * table in the store, so the table would seem unused. Walks are chosen at random: a fixed pattern could always choose
 * the same one of several threads.
 */
static void tell_tables(struct xp_unwinder *unwinder, const struct xp_frame *frames, size_t count)
{
	unwinder->random = unwinder->random * 6364136223846793005ull + 1442695040888963407ull;
	if ((unwinder->random >> 32) % TELL_EVERY)
		return;
	for (size_t i = 0; i < count; i++) {
		const struct xp_vma *vma = frames[i].vma;
		const struct xp_cfi_table *table;

		if (vma)
			unwinder->rules.table(unwinder->rules.arg, vma->file,
					      vma->file_offset + (frames[i].address - vma->start), &table);
	}
}

void xp_unwind(struct xp_unwinder *unwinder, const struct xp_address_space *space,
	       const struct xp_unwind_thread *thread, bool has_time, struct xp_frame *frames,
	       struct xp_unwind_result *result)
{
	struct walk walk = {
		.unwinder = unwinder,
		.space = space,
		.thread = thread,
		.has_time = has_time,
		.ip = thread->ip,
		.sp = thread->sp,
		.bp = thread->bp,
		.regs = thread->regs,
		.vma = xp_address_space_find(space, thread->ip),
	};
	size_t count = 0;

	leave_trampoline(&walk);
	do {
		if (count == XP_UNWIND_FRAMES_MAX) {
			walk.end = XP_UNWIND_DEEP;
			break;
		}
		frames[count] = (struct xp_frame){ .address = walk.ip, .vma = walk.vma };
		frames[count].interrupted = count && !walk.is_return;
		count++;
	} while (step(&walk));
	*result = (struct xp_unwind_result){
		.end = walk.end,
		.count = count,
		.used_bytes = walk.used_bytes,
		.file = walk.file,
		.file_offset = walk.file_offset,
	};
	if (walk.is_late && walk.end != XP_UNWIND_WAITS)
		result->end = XP_UNWIND_TABLE_LATE;
	tell_tables(unwinder, frames, count);
}
