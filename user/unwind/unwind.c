/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/unwind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "unwind/rules.h"
#include "unwind/unwind_cache.h"
#include "xprof/event.h"

/* One of this many walks reports which tables it used. */
#define TELL_EVERY 16

struct xp_unwinder {
	struct xp_rules rules;
	bool by_frame_pointer;
	uint64_t random;
	struct xp_unwind_cache chains;
	struct xp_cached_step steps[XP_UNWIND_FRAMES_MAX]; /* of the current walk, leaf first */
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
	/* The thread's last walk, to which this one is compared; NULL: not cached. */
	struct xp_cached_chain *chain;
	size_t ahead; /* the number of its frames that this walk may still reach */
	/* Number of this walk's last frames that are consecutive in the cached walk, too. */
	size_t run;
	struct xp_cached_step *step; /* of the current frame */
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
	if (unwinder)
		xp_unwind_cache_free(&unwinder->chains);
	free(unwinder);
}

static bool has_code(const struct xp_unwind_thread *thread)
{
	return thread->code && thread->code->has_any;
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

/* Returns whether ip is after the end of its function, which may end with a system call, as glibc's __restore_rt. */
static bool is_behind_end(const struct walk *walk, const struct xp_rule *rule)
{
	return walk->ip == walk->thread->ip && walk->thread->in_syscall && rule->has_table && !rule->is_late &&
	       rule->found.row.rule == XP_CFI_NONE;
}

/* Finds the rule for the frame. Returns false if the walk waits for it. */
static bool find_rule(struct walk *walk, struct xp_rule *rule)
{
	uint64_t address = walk->ip - walk->is_return;

	xp_rules_find(&walk->unwinder->rules, walk->thread->code, walk->vma, address, rule);
	if (is_behind_end(walk, rule))
		xp_rules_find(&walk->unwinder->rules, walk->thread->code, walk->vma, --address, rule);
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

/* Memory without a file never has rules, unless the process has JIT code with unwinding data. */
static bool never_has_rules(const struct walk *walk)
{
	return walk->vma->file->kind == XP_FILE_ANON && !has_code(walk->thread);
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
	if (walk->vma && (walk->has_table || never_has_rules(walk))) {
		walk->step->method = XP_STEP_BY_BP;
		walk->step->saved = -16;
	}
	walk->regs = NULL;
	return go_to(walk, ip, bp + 16, next);
}

/*
 * Goes to the caller of a frame with a known canonical frame address. saved: address of the caller's rbp, 0 if it is
 * still in rbp.
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
	/* In an epilogue, rbp has already been popped, but the tables still name its slot: memory below sp is free. */
	if (ip && saved && saved >= walk->sp) {
		if (!read_word(walk, saved, &bp))
			return false;
		walk->step->saved = (int16_t)(saved - cfa);
		if (saved >= cfa) /* no compiler saves it there */
			walk->step->method = XP_STEP_OTHER;
	}
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
 * Returns whether a register still has the caller's value. Hand-written loops that realign the stack keep the old stack
 * pointer in a register. The functions that they call, at most a helper, do not change that register: by the ABI, the
 * callee does not save it, and it must be intact on return.
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

/* Goes to the code that a signal interrupted. Its stack may differ from the handler's stack, but its ip is certain. */
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
		walk->step->method = XP_STEP_BY_SP;
		cfa = walk->sp + 8 * (uint64_t)rule->row.cfa;
		return by_cfa(walk, cfa, saved_bp(&rule->row, cfa));
	case XP_CFI_RBP:
		walk->step->method = XP_STEP_BY_BP;
		cfa = walk->bp + 8 * (uint64_t)rule->row.cfa;
		return by_cfa(walk, cfa, saved_bp(&rule->row, cfa));
	case XP_CFI_PLT:
		walk->step->method = XP_STEP_BY_SP;
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

/* Goes from a frame to its caller. Returns false if there is none; walk->end is the reason. */
static bool step(struct walk *walk)
{
	struct xp_rule rule;
	bool has_caller;

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
	has_caller = by_rule(walk, &rule.found);
	if (rule.is_code)
		walk->step->method = XP_STEP_OTHER;
	return has_caller;
}

/* ---- the cached walk of the thread ---- */

/*
 * Reuses frames of the thread's last walk. A step to a caller depends on the frame's registers, on the words that it
 * reads, and on rules. Rules do not change while the mappings stay the same, except for rules of JIT code. So if a walk
 * reaches a frame of the last walk, and the words read there are unchanged, the callers are the same. Most samples of a
 * thread differ only in their innermost frames. The other frames then need no rule lookups.
 */

static struct xp_frame frame_of(const struct walk *walk)
{
	return (struct xp_frame){ .address = walk->ip, .vma = walk->vma };
}

/* Starts to record the inputs of the step from this frame to its caller. */
static void begin_step(struct walk *walk, size_t count)
{
	walk->step = &walk->unwinder->steps[count - 1];
	*walk->step = (struct xp_cached_step){
		.ip = walk->ip,
		.sp = walk->sp,
		.bp = walk->bp,
		.vma = walk->vma,
		.saved = XP_STEP_NOT_SAVED,
		.is_return = walk->is_return,
		.method = XP_STEP_OTHER,
	};
}

/*
 * Ends the run before the outermost frame. Records the frames of the run, the last ones of count, like new ones; the
 * very last one is recorded already.
 */
static void end_run(struct walk *walk, size_t count)
{
	for (size_t i = 1; i < walk->run; i++)
		walk->unwinder->steps[count - 1 - i] = walk->chain->steps[walk->ahead + i];
	walk->run = 0;
}

/*
 * Returns whether the current frame, the last one of count, is in the last walk. If so, sets walk->ahead to its index
 * in chain->steps.
 */
static bool is_known(struct walk *walk, size_t count)
{
	const struct xp_cached_step *steps = walk->chain->steps;
	size_t at = walk->ahead;
	bool is_same;

	while (at && steps[at - 1].sp < walk->sp)
		at--;
	is_same = at && steps[at - 1].sp == walk->sp && steps[at - 1].ip == walk->ip &&
		  steps[at - 1].is_return == walk->is_return && !walk->is_elsewhere;
	if (walk->run && (!is_same || at != walk->ahead))
		end_run(walk, count - 1);
	walk->ahead = is_same ? at - 1 : at;
	walk->run += is_same;
	return is_same;
}

/*
 * Returns whether a frame of the last walk has the same caller again, if its rbp is *bp. If so, sets *bp to the
 * caller's rbp.
 */
static bool returns_again(const struct xp_unwind_thread *thread, const struct xp_cached_step *step, uint64_t *bp)
{
	const struct xp_cached_step *caller = step - 1;
	uint64_t ip, saved = *bp;

	if (step->method != XP_STEP_BY_SP && (step->method != XP_STEP_BY_BP || *bp != step->bp))
		return false;
	if (step->saved != XP_STEP_NOT_SAVED && !peek(thread, caller->sp + (int64_t)step->saved, &saved))
		return false;
	if (!peek(thread, caller->sp - 8, &ip) || ip != caller->ip)
		return false;
	*bp = saved;
	return true;
}

/*
 * Goes from a known frame to its callers while they are the same as in the last walk. Returns the new number of frames.
 */
static size_t follow(struct walk *walk, struct xp_frame *frames, size_t count)
{
	const struct xp_cached_step *step = &walk->chain->steps[walk->ahead];
	size_t most = XP_MIN(walk->ahead, XP_UNWIND_FRAMES_MAX - count), more;
	const struct xp_unwind_thread *thread = walk->thread;
	uint64_t bp = walk->bp;

	if (thread->stack_missing)
		return count;
	for (more = 0; more < most && returns_again(thread, step, &bp); more++) {
		step--;
		frames[count + more] = (struct xp_frame){ .address = step->ip, .vma = step->vma };
	}
	if (!more)
		return count;
	walk->used_bytes = XP_MAX(walk->used_bytes, (uint32_t)(step->sp - thread->sp));
	walk->ip = step->ip;
	walk->sp = step->sp;
	walk->bp = bp;
	walk->regs = NULL;
	walk->vma = step->vma;
	walk->is_return = true;
	walk->ahead -= more;
	walk->run += more;
	begin_step(walk, count + more);
	return count + more;
}

static void remember(struct walk *walk, size_t count)
{
	if (walk->run && walk->ahead)
		end_run(walk, count);
	xp_unwind_cache_store(&walk->unwinder->chains, walk->chain, walk->run, walk->unwinder->steps, count - 1);
}

/*
 * Reports the tables of one random walk in TELL_EVERY: a cached rule does not touch its table in the store, where the
 * table would age as if unused. The choice is random, because a fixed pattern could always select the same one of
 * several threads.
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
		.chain =
		    thread->tid ? xp_unwind_cache_get(&unwinder->chains, thread->tid, space, has_code(thread)) : NULL,
	};
	size_t count = 0;

	leave_trampoline(&walk);
	walk.ahead = walk.chain ? walk.chain->count : 0;
	do {
		if (count == XP_UNWIND_FRAMES_MAX) {
			walk.end = XP_UNWIND_DEEP;
			break;
		}
		frames[count] = frame_of(&walk);
		frames[count].interrupted = count && !walk.is_return;
		begin_step(&walk, ++count);
		/* Do not reuse the leaf, because a profile shows it differently. */
		if (count > 1 && (walk.ahead || walk.run) && is_known(&walk, count))
			count = follow(&walk, frames, count);
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
	if (walk.chain && walk.end != XP_UNWIND_WAITS)
		remember(&walk, count);
	tell_tables(unwinder, frames, count);
}
