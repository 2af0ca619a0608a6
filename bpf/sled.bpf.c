// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Programs on uprobes at XRay sleds, one per kind of sled, or at the stub that patched sleds call: stamp, reserve,
 * fill, submit. The uprobe's cookie describes the sled (xprof/event.h), or the patched sled leaves a description
 * (user/arch/x86_64/stub.h). The reader polls, so a record never wakes it.
 */
#include "common.bpf.h"
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

static __always_inline xp_event_position position_of(__u64 pid_tgid)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return has_call_rings ? ring_position(pid_tgid, fs_base_of(task)) : 0;
}

/* flags: of bpf_ringbuf_submit(). */
static __always_inline int record_positioned(__u64 pid_tgid, __u64 sp, __u32 word, xp_event_position position,
					     enum xp_fell_through fell_through, __u64 flags)
{
	enum xp_event_kind kind = word >> XP_FN_BITS;
	__u64 time = now();
	struct xp_event_call *event = reserve(sizeof(*event), kind);

	if (!event)
		return 0;
	fill(&event->head, time, pid_tgid, sp, word, kind);
	event->position = position;
	event->fell_through = fell_through;
	bpf_ringbuf_submit(event, flags);
	return 0;
}

/* sp: the slot of the function's return address. */
static __always_inline int record_call(__u64 sp, __u32 fn, enum xp_event_kind kind)
{
	__u64 time = now();
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct xp_event *event;

	if (!wanted(pid_tgid >> 32))
		return 0;
	if (has_call_rings)
		return record_positioned(pid_tgid, sp, xp_event_word(fn, kind), position_of(pid_tgid), XP_FELL_NOT,
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

/* Whether a jump with this condition code (Intel SDM, volume 2, appendix B.1.4) is taken. */
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
 * clang before 19 also puts a tail exit sled before a conditional jump. The sled runs whether or not the jump is taken;
 * the function has been left only if it is.
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

/*
 * The caller loads the registers: clang merges later loads into a modified context pointer, which the verifier rejects.
 */
static __always_inline int record_args(__u64 sp, __u32 fn, const __u64 registers[XP_ARGS_MAX])
{
	__u64 time = now();
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct xp_event_args *event;

	if (!wanted(pid_tgid >> 32))
		return 0;
	event = reserve(sizeof(*event), XP_EVENT_ENTRY_ARGS);
	if (!event)
		return 0;
	fill(&event->head, time, pid_tgid, sp, fn, XP_EVENT_ENTRY_ARGS);
	event->count = args_count;
	event->position = position_of(pid_tgid);
	for (int i = 0; i < XP_ARGS_MAX; i++)
		event->args[i] = registers[i];
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

#define ARGUMENTS(ctx)                                                                                                 \
	{                                                                                                              \
		(ctx)->di, (ctx)->si, (ctx)->dx, (ctx)->cx, (ctx)->r8, (ctx)->r9                                       \
	}

SEC("uprobe")
int sled_entry_args(struct pt_regs *ctx)
{
	__u64 registers[XP_ARGS_MAX] = ARGUMENTS(ctx);

	return record_args(ctx->sp, bpf_get_attach_cookie(ctx), registers);
}

/* The registers in the order of their numbers in x86 instructions. */
#define REGISTERS(ctx)                                                                                                 \
	{                                                                                                              \
		(ctx)->ax, (ctx)->cx, (ctx)->dx, (ctx)->bx, (ctx)->sp, (ctx)->bp, (ctx)->si, (ctx)->di, (ctx)->r8,     \
		    (ctx)->r9, (ctx)->r10, (ctx)->r11, (ctx)->r12, (ctx)->r13, (ctx)->r14, (ctx)->r15                  \
	}

/* One size class of an event: the ring reserves only sizes that the verifier knows. */
#define RECORD_EVENT(room_bytes)                                                                                       \
	do {                                                                                                           \
		struct xp_event_payload *event = reserve(sizeof(*event) + (room_bytes), kind);                         \
                                                                                                                       \
		if (!event)                                                                                            \
			return 0;                                                                                      \
		fill(&event->head, time, pid_tgid, sp, fn, kind);                                                      \
		event->type = type;                                                                                    \
		event->position = position;                                                                            \
		event->size_user = size_user;                                                                          \
		event->size = size;                                                                                    \
		if (size > (room_bytes) || bpf_probe_read_user(event->payload, size, (const void *)address)) {         \
			event->size = 0;                                                                               \
			faulted = true;                                                                                \
		}                                                                                                      \
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);                                                           \
	} while (0)

static __always_inline int record_event(__u64 sp, __u32 fn, enum xp_event_kind kind, __u16 type, __u64 address,
					__u64 size_user)
{
	__u64 time = now();
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	__u32 size = size_user < payload_max ? size_user : payload_max;
	xp_event_position position;
	bool faulted = false;

	if (!wanted(pid_tgid >> 32))
		return 0;
	position = position_of(pid_tgid);
	if (size <= 64)
		RECORD_EVENT(64);
	else if (size <= 512)
		RECORD_EVENT(512);
	else
		RECORD_EVENT(XP_EVENT_PAYLOAD_MAX);

	if (faulted)
		COUNT(faulted[kind]);
	else if (size < size_user)
		COUNT(truncated[kind]);
	return 0;
}

SEC("uprobe")
int sled_custom_event(struct pt_regs *ctx)
{
	__u64 registers[16] = REGISTERS(ctx);
	__u64 cookie = bpf_get_attach_cookie(ctx);

	return record_event(ctx->sp, cookie, XP_EVENT_CUSTOM, 0, registers[XP_COOKIE_OPERAND(cookie, 0)],
			    registers[XP_COOKIE_OPERAND(cookie, 1)]);
}

SEC("uprobe")
int sled_typed_event(struct pt_regs *ctx)
{
	__u64 registers[16] = REGISTERS(ctx);
	__u64 cookie = bpf_get_attach_cookie(ctx);

	return record_event(ctx->sp, cookie, XP_EVENT_TYPED, registers[XP_COOKIE_OPERAND(cookie, 0)],
			    registers[XP_COOKIE_OPERAND(cookie, 1)], registers[XP_COOKIE_OPERAND(cookie, 2)]);
}

/*
 * Programs at the stub that patched sleds call (user/arch/x86_64/stub.h). The sled passes the function, and any code of
 * the target may call the stub: nothing here trusts that value. A thread that was inside a counting sled while the sled
 * was rewritten to record still leaves the old kind of word.
 */

/* An exit jumps to the stub. All other sleds have pushed the return address of their call. */
#define RETURN_BYTES 8

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

/*
 * A thread whose call ring is full fills this CPU's ring buffer in some 35 ms. The loader may be late by more: it waits
 * for a CPU, or for the disk. So the last quarter is given out slowly, and nothing is lost. Each call waits for this
 * long and no longer, in the kernel: whatever becomes of the loader, the quarter of a ring of 4 MiB is full after 1.3
 * s, and the target goes on as fast as before.
 */
#define HOLD_NS 50000
/* More looks at the clock than there are in that time, in turns: the verifier follows each look of a loop. */
#define HOLD_TURNS 32
#define HOLD_LOOKS 64

/* A turn. Returns whether the time is over. A function of its own, which the verifier checks once. */
__noinline int has_held(__u64 begin)
{
	for (int i = 0; i < HOLD_LOOKS; i++)
		if (bpf_ktime_get_ns() - begin >= HOLD_NS)
			return 1;
	return 0;
}

/* flags: of bpf_ringbuf_submit(). Returns those of a record that was held. */
static __always_inline __u64 hold_back(__u64 flags)
{
	void *ring = ring_here();
	__u64 room = ring ? bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) : 0;
	__u64 used = ring ? bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) : 0, begin;

	if (used < room - room / 4 || used + sizeof(struct xp_event_call) + RING_EXTRA_BYTES > room)
		return flags;
	begin = bpf_ktime_get_ns();
	for (int i = 0; i < HOLD_TURNS && !has_held(begin); i++)
		;
	return BPF_RB_FORCE_WAKEUP;
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

	if (kind > XP_EVENT_TAIL_EXIT)
		return 0;
	if (kind != XP_EVENT_EXIT)
		sp += RETURN_BYTES;
	/* A full ring wakes the reader if that has taken everything else. */
	if (count)
		return record_positioned(pid_tgid, sp, word, count + 1, XP_FELL_FULL, hold_back(0));
	position = position_without_ring(pid_tgid, fs_base);
	/* A thread that gets no ring would wake the reader at each call. */
	return record_positioned(pid_tgid, sp, word, position, XP_FELL_NO_RING, hold_back(BPF_RB_NO_WAKEUP));
}

SEC("uprobe")
int stub_args(struct pt_regs *ctx)
{
	__u64 registers[XP_ARGS_MAX] = ARGUMENTS(ctx);
	__u32 word = ctx->r10;
	__u32 kind = word >> XP_FN_BITS;

	if (kind != XP_EVENT_ENTRY && kind != XP_EVENT_ENTRY_ARGS)
		return 0;
	return record_args(ctx->sp + RETURN_BYTES, word, registers);
}

/* The words that an event's sled has pushed, and the return address of its call, which it pushed last. */
struct event_words {
	__u64 returns_to;
	__u64 operands; /* register numbers, four bits each */
	__u64 fn;
};

static __always_inline int record_stub_event(struct pt_regs *ctx, enum xp_event_kind kind)
{
	__u64 registers[16] = REGISTERS(ctx);
	struct event_words words;
	__u64 first, second, third;

	if (bpf_probe_read_user(&words, sizeof(words), (const void *)registers[4])) {
		count_lost(kind);
		return 0;
	}
	registers[4] += sizeof(words);
	first = registers[words.operands & 0xf];
	second = registers[words.operands >> 4 & 0xf];
	third = registers[words.operands >> 8 & 0xf];
	if (kind == XP_EVENT_CUSTOM)
		return record_event(registers[4], words.fn, kind, 0, first, second);
	return record_event(registers[4], words.fn, kind, first, second, third);
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
