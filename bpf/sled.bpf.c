// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Programs on uprobes at XRay sleds, one per kind of sled, or at the stub that patched sleds call: stamp, reserve,
 * fill, submit. The uprobe's cookie describes the sled (xprof/event.h), or the patched sled passes a description
 * (user/arch/x86_64/stub.h). The last program is on uprobes of Go functions. xprof polls the rings, so a record never
 * wakes it.
 */
#include "common.bpf.h"
#include "registers.bpf.h"
#include "thread.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set by the loader: record only processes in `targets`, because the uprobes are on every process of a binary. */
const volatile bool only_targets = false;
/* Set by the loader: number of arguments in the record of an entry with arguments, 1..XP_ARGS_MAX. */
const volatile __u32 args_count = 1;
/* Set by the loader: limit on the payload bytes of an event. */
const volatile __u32 payload_max = XP_EVENT_PAYLOAD_MAX;

static __always_inline bool wanted(__u32 pid)
{
	return !only_targets || followed(pid);
}

/*
 * Returns the position in the running thread's call ring; 0 if the thread has none. Not inlined, like other lookups
 * here: the stack limit (common.bpf.h) is per function.
 */
static __noinline xp_event_position ring_position(__u64 pid_tgid, __u64 fs_base)
{
	__u32 taken_back;

	return ring_counts(pid_tgid >> 32, fs_base, &taken_back);
}

static __always_inline xp_event_position position_here(void)
{
	if (!has_call_rings)
		return 0;
	return ring_position(bpf_get_current_pid_tgid(), fs_base_of((struct task_struct *)bpf_get_current_task()));
}

/* flags: for bpf_ringbuf_submit(). */
static __always_inline int record_positioned(__u64 pid_tgid, __u64 sp, __u32 word, xp_event_position position,
					     enum xp_fell_through fell_through, __u64 flags)
{
	enum xp_event_kind kind = word >> XP_FN_BITS;
	__u64 time = bpf_ktime_get_ns();
	struct xp_event_call *event = reserve(sizeof(*event), kind);

	if (!event)
		return 0;
	fill(&event->head, time, pid_tgid, sp, word, kind);
	event->position = position;
	event->fell_through = fell_through;
	bpf_ringbuf_submit(event, flags);
	return 0;
}

/* sp: slot of the function's return address. */
static __always_inline int record_call(__u64 sp, __u32 fn, enum xp_event_kind kind)
{
	__u64 time = bpf_ktime_get_ns();
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct xp_event *event;

	if (!wanted(pid_tgid >> 32))
		return 0;
	if (has_call_rings)
		return record_positioned(pid_tgid, sp, xp_event_word(fn, kind), position_here(), XP_FELL_NOT,
					 BPF_RB_NO_WAKEUP);
	event = reserve(sizeof(*event), kind);
	if (!event)
		return 0;
	fill(event, time, pid_tgid, sp, fn, kind);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("uprobe")
int sled_entry(struct pt_regs *ctx)
{
	return record_call(ctx->sp, bpf_get_attach_cookie(ctx), XP_EVENT_ENTRY);
}

SEC("uprobe")
int sled_exit(struct pt_regs *ctx)
{
	return record_call(ctx->sp, bpf_get_attach_cookie(ctx), XP_EVENT_EXIT);
}

SEC("uprobe")
int sled_tail_exit(struct pt_regs *ctx)
{
	return record_call(ctx->sp, bpf_get_attach_cookie(ctx), XP_EVENT_TAIL_EXIT);
}

#define FLAGS_CF (1 << 0)
#define FLAGS_PF (1 << 2)
#define FLAGS_ZF (1 << 6)
#define FLAGS_SF (1 << 7)
#define FLAGS_OF (1 << 11)

/* Returns whether a jump with this condition code (Intel SDM, volume 2, appendix B.1.4) is taken. */
static __always_inline bool condition_holds(__u32 condition, __u64 flags)
{
	bool sign_differs = !(flags & FLAGS_SF) != !(flags & FLAGS_OF);
	bool holds;

	switch (condition >> 1) {
	case 0:
		holds = flags & FLAGS_OF;
		break;
	case 1:
		holds = flags & FLAGS_CF;
		break;
	case 2:
		holds = flags & FLAGS_ZF;
		break;
	case 3:
		holds = flags & (FLAGS_CF | FLAGS_ZF);
		break;
	case 4:
		holds = flags & FLAGS_SF;
		break;
	case 5:
		holds = flags & FLAGS_PF;
		break;
	case 6:
		holds = sign_differs;
		break;
	default:
		holds = sign_differs || flags & FLAGS_ZF;
		break;
	}
	return holds != (condition & 1);
}

/*
 * clang before 19 also puts a tail exit sled before a conditional jump. The sled runs in any case, but only a taken
 * jump leaves the function.
 */
SEC("uprobe")
int sled_tail_exit_conditional(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	if (condition_holds(XP_COOKIE_CONDITION(cookie), ctx->flags))
		return record_call(ctx->sp, cookie, XP_EVENT_TAIL_EXIT);
	COUNT(not_taken);
	return 0;
}

/* An exit jumps to the stub. All other sleds push the return address of their call. */
#define RETURN_BYTES 8

/* pushed: number of bytes that the sled has pushed. */
static __always_inline int record_args(struct pt_regs *ctx, __u32 pushed, __u32 fn)
{
	__u64 time = bpf_ktime_get_ns();
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct xp_event_args *event;

	if (!wanted(pid_tgid >> 32))
		return 0;
	event = reserve(sizeof(*event), XP_EVENT_ENTRY_ARGS);
	if (!event)
		return 0;
	fill(&event->head, time, pid_tgid, ctx->sp + pushed, fn, XP_EVENT_ENTRY_ARGS);
	event->count = args_count;
	event->args[0] = ctx->di;
	event->args[1] = ctx->si;
	event->args[2] = ctx->dx;
	event->args[3] = ctx->cx;
	event->args[4] = ctx->r8;
	event->args[5] = ctx->r9;
	event->position = position_here();
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("uprobe")
int sled_entry_args(struct pt_regs *ctx)
{
	return record_args(ctx, 0, bpf_get_attach_cookie(ctx));
}

/* Returns operand i of a custom or typed event, from the register that the cookie names. */
static __always_inline __u64 operand(struct pt_regs *ctx, __u64 cookie, __u32 i, __u32 pushed)
{
	__u32 number = XP_COOKIE_OPERAND(cookie, i);

	return register_value(ctx, number) + (number == REGISTER_SP ? pushed : 0);
}

/* Returns the space for an event's payload in the ring: the verifier must know each size. */
static __always_inline __u32 room_of(__u32 size)
{
	return size <= 64 ? 64 : size <= 512 ? 512 : XP_EVENT_PAYLOAD_MAX;
}

static __always_inline int record_event(struct pt_regs *ctx, __u32 pushed, __u64 cookie, enum xp_event_kind kind)
{
	__u32 is_typed = kind == XP_EVENT_TYPED; /* the type comes first */
	__u64 time = bpf_ktime_get_ns();
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct xp_event_payload *event;
	__u64 size_user;
	__u32 size;

	if (!wanted(pid_tgid >> 32))
		return 0;
	size_user = operand(ctx, cookie, is_typed + 1, pushed);
	size = size_user < payload_max ? size_user : payload_max;
	barrier_var(size);
	if (size > XP_EVENT_PAYLOAD_MAX) /* never true: for the verifier */
		return 0;
	event = reserve(sizeof(*event) + room_of(size), kind);
	if (!event)
		return 0;
	fill(&event->head, time, pid_tgid, ctx->sp + pushed, cookie, kind);
	event->size = size;
	event->type = is_typed ? operand(ctx, cookie, 0, pushed) : 0;
	event->size_user = size_user;
	event->position = position_here();
	if (bpf_probe_read_user(event->payload, size, (const void *)operand(ctx, cookie, is_typed, pushed))) {
		event->size = 0;
		COUNT(faulted[kind]);
	} else if (size < event->size_user) {
		COUNT(truncated[kind]);
	}
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("uprobe")
int sled_custom_event(struct pt_regs *ctx)
{
	return record_event(ctx, 0, bpf_get_attach_cookie(ctx), XP_EVENT_CUSTOM);
}

SEC("uprobe")
int sled_typed_event(struct pt_regs *ctx)
{
	return record_event(ctx, 0, bpf_get_attach_cookie(ctx), XP_EVENT_TYPED);
}

/*
 * Programs at the stub that patched sleds call (user/arch/x86_64/stub.h). The sled passes the function, but any code of
 * the target may call the stub, so that value is untrusted. A thread that was inside a counting sled while the sled was
 * rewritten to record still passes the old kind of word.
 */

SEC("uprobe")
int stub_call(struct pt_regs *ctx)
{
	__u64 sp = ctx->sp;
	__u32 word = ctx->r10;
	__u32 kind = word >> XP_FN_BITS;

	if (kind == XP_EVENT_EXIT)
		return record_call(sp, word, XP_EVENT_EXIT);
	if (kind == XP_EVENT_ENTRY)
		return record_call(sp + RETURN_BYTES, word, XP_EVENT_ENTRY);
	if (kind == XP_EVENT_TAIL_EXIT)
		return record_call(sp + RETURN_BYTES, word, XP_EVENT_TAIL_EXIT);
	return 0;
}

/* Returns the fs base of a thread, combined with the round of reports. */
static __always_inline __u64 told_value(__u64 fs_base)
{
	return fs_base | told_round << TOLD_ROUND_SHIFT;
}

/* Reports a thread that runs without a call ring. */
static __noinline bool record_told(__u64 pid_tgid, __u64 fs_base)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return record_thread(pid_tgid, task, fs_base, CLONE_VM | CLONE_THREAD | XP_TASK_TOLD, 0, XP_EVENT_THREAD);
}

/*
 * Reports a thread without a call ring to the loader: once per fs base, at most once per millisecond. Returns true if
 * this fs base has been reported.
 */
static __always_inline bool tell_thread(__u64 pid_tgid, __u64 fs_base)
{
	__u32 tid = pid_tgid;
	const struct told *told = bpf_map_lookup_elem(&told_threads, &tid);
	struct told now_told = { .fs_base = told_value(fs_base) };

	if (told && told->fs_base == now_told.fs_base)
		return true;
	now_told.ns = bpf_ktime_get_ns();
	if (told && now_told.ns - told->ns < TOLD_PAUSE_NS)
		return false;
	if (!record_told(pid_tgid, fs_base))
		return false;
	return !bpf_map_update_elem(&told_threads, &tid, &now_told, BPF_ANY);
}

/* Reports a thread that fell back to the uprobe without a ring, and returns its position. */
static __noinline xp_event_position position_without_ring(__u64 pid_tgid, __u64 fs_base)
{
	__u64 *known = &ringless[(__u32)pid_tgid % RINGLESS_THREADS];
	/* Read this before the headers: if the loader adds headers meanwhile, the word differs. */
	__u64 word = told_value(fs_base) * RINGLESS_MIX + (pid_tgid << 32 | (__u32)call_headers_round);
	xp_event_position position;

	if (*known == word)
		return 0;
	/* The thread has no key now, but may have used the key of an earlier thread for its first calls. */
	position = ring_position(pid_tgid, fs_base);
	if (tell_thread(pid_tgid, fs_base) && !find_call_header(pid_tgid >> 32, fs_base))
		*known = word;
	return position;
}

/* The registers that a slot for calls in memory has pushed (user/arch/x86_64/stub_memory.c). */
#define PUSHED_BYTES 24

/* rax: the fs base of the thread. rdx: the number of records in its ring, which is full; 0: it has no ring yet. */
SEC("uprobe")
int stub_memory_call(struct pt_regs *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	__u64 sp = ctx->sp + PUSHED_BYTES;
	__u64 count = ctx->dx;
	__u64 fs_base = ctx->ax;
	__u32 word = ctx->r10;
	__u32 kind = word >> XP_FN_BITS;
	xp_event_position position;

	if (kind > XP_EVENT_TAIL_EXIT || !wanted(pid_tgid >> 32))
		return 0;
	if (kind != XP_EVENT_EXIT)
		sp += RETURN_BYTES;
	/* A full ring wakes xprof if xprof has read all earlier records. */
	if (count)
		return record_positioned(pid_tgid, sp, word, count + 1, XP_FELL_FULL, 0);
	position = position_without_ring(pid_tgid, fs_base);
	/* Do not wake xprof: a thread that never gets a ring would wake it at each call. */
	return record_positioned(pid_tgid, sp, word, position, XP_FELL_NO_RING, BPF_RB_NO_WAKEUP);
}

SEC("uprobe")
int stub_args(struct pt_regs *ctx)
{
	__u32 word = ctx->r10;
	__u32 kind = word >> XP_FN_BITS;

	if (kind != XP_EVENT_ENTRY && kind != XP_EVENT_ENTRY_ARGS)
		return 0;
	return record_args(ctx, RETURN_BYTES, word);
}

/* The words that an event's sled has pushed, after the return address of its call. */
struct event_words {
	__u64 returns_to;
	__u64 operands; /* register numbers, four bits each */
	__u64 fn;
};

/* Returns the cookie that the event's sled would have, or UNREADABLE. */
#define UNREADABLE (~0ull)
static __noinline __u64 pushed_cookie(__u64 sp)
{
	struct event_words words;

	if (bpf_probe_read_user(&words, sizeof(words), (const void *)sp))
		return UNREADABLE;
	return words.operands << 32 | (words.fn & XP_FN_MAX);
}

static __always_inline int record_stub_event(struct pt_regs *ctx, enum xp_event_kind kind)
{
	__u64 cookie = pushed_cookie(ctx->sp);

	if (cookie == UNREADABLE) {
		count_lost(kind);
		return 0;
	}
	return record_event(ctx, sizeof(struct event_words), cookie, kind);
}

SEC("uprobe")
int stub_custom_event(struct pt_regs *ctx)
{
	return record_stub_event(ctx, XP_EVENT_CUSTOM);
}

SEC("uprobe")
int stub_typed_event(struct pt_regs *ctx)
{
	return record_stub_event(ctx, XP_EVENT_TYPED);
}

/* The start of Go's struct g: the bounds of the goroutine's stack (src/runtime/runtime2.go). */
struct go_stack {
	__u64 lo;
	__u64 hi;
};

/* At each probe, r14 is the address of the goroutine (user/functions/go_plan.h). */
SEC("uprobe")
int go_call(struct pt_regs *ctx)
{
	__u64 time = bpf_ktime_get_ns();
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	enum xp_event_kind kind = (__u32)cookie >> XP_FN_BITS;
	struct xp_event_go *event;
	struct go_stack stack;
	__u64 sp = ctx->sp;

	if (!wanted(pid_tgid >> 32) ||
	    (cookie & XP_COOKIE_HAS_CONDITION && !condition_holds(XP_COOKIE_CONDITION(cookie), ctx->flags)))
		return 0;
	event = reserve(sizeof(*event), kind);
	if (!event)
		return 0;
	event->goroutine = ctx->r14;
	if (bpf_probe_read_user(&stack, sizeof(stack), (const void *)ctx->r14) || sp <= stack.lo || sp > stack.hi)
		event->goroutine = 0;
	else
		sp -= stack.hi;
	fill(&event->head, time, pid_tgid, sp, cookie, kind);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}
