// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The program on perf sampling events: records registers, kernel stack, and a stack dump (or user frames, by frame
 * pointers) of the task that the event interrupted. perf runs such programs with interrupts off and never nested on a
 * CPU (bpf_prog_active). So they may build a record in per-CPU memory and copy only the used part into the ring.
 */
#include "births.bpf.h"
#include "common.bpf.h"

#define PF_KTHREAD 0x00200000
/*
 * cs is not in our pt_regs (it moved into a union in Linux 6.9): kernel code is in the upper half of the address space.
 */
#define IN_KERNEL(ip) ((__s64)(ip) < 0)
#define FRAMES_BYTES (XP_SAMPLE_FRAMES_MAX * (__u32)sizeof(__u64))

/* A record under construction. The verifier requires the page at the end, to see that no piece is too long. */
struct sample {
	__u32 frames_bytes;
	__u32 wanted; /* bytes of the stack to copy */
	__u32 done;
	__u32 failures; /* consecutive pages that could not be read */
	struct xp_event_sample head;
	__u8 rest[2 * FRAMES_BYTES + XP_STACK_BYTES_MAX + XP_STACK_PAGE_BYTES];
};

/* One per CPU. Not a per-CPU array, whose values are limited to 32 KiB. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample);
} samples SEC(".maps");

/* By thread. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct xp_stack_size);
} stack_sizes SEC(".maps");

const volatile __u32 sample_stacks; /* enum xp_sample_stacks */
/* Set by the loader: the events of the CPUs sample the followed processes, and not those of their threads. */
__u32 sample_cpus = 0;

static __always_inline struct sample *sample_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&samples, &cpu);
}

/* Number of frames that bpf_get_stack() returned. */
static __always_inline __u32 frames_of(long bytes)
{
	return bytes > 0 ? (__u32)bytes / sizeof(__u64) : 0;
}

/* How much of the thread's stack to copy. Above the start of the stack are arguments and environment. */
static __always_inline __u32 bytes_to_copy(struct task_struct *task, __u32 tid, __u64 sp, __u32 *flags)
{
	struct xp_stack_size *known = bpf_map_lookup_elem(&stack_sizes, &tid);
	__u64 start = BPF_CORE_READ(task, mm, start_stack); /* 0 if it cannot be read */
	bool is_near_start = start - sp <= XP_STACK_BYTES_MAX;
	struct xp_stack_size size = { .bytes = is_near_start ? XP_STACK_BYTES_MAX : XP_STACK_BYTES_USUAL };

	if (known)
		size = *known;
	if (size.bytes > XP_STACK_BYTES_MAX)
		size.bytes = XP_STACK_BYTES_MAX;
	if (is_near_start && start - sp <= size.bytes) {
		*flags |= XP_SAMPLE_WHOLE;
		return start - sp;
	}
	if (!is_near_start && size.top - sp <= XP_STACK_BYTES_MAX) {
		*flags |= XP_SAMPLE_TOP;
		if (size.top - sp < size.bytes)
			return size.top - sp;
	}
	return size.bytes;
}

/*
 * Copies the next piece. Returns non-zero at the end. A separate function, with all changing state in memory: the
 * verifier then checks it once, rather than in every state of the surrounding loop.
 */
__noinline int copy_piece(__u32 piece)
{
	struct sample *s = sample_here();
	__u32 size, at;
	__u64 from;

	if (!s || s->done >= s->wanted)
		return 1;
	from = s->head.sp + s->done;
	size = XP_STACK_PAGE_BYTES - (from & (XP_STACK_PAGE_BYTES - 1));
	if (size > s->wanted - s->done)
		size = s->wanted - s->done;
	at = s->frames_bytes + s->done;
	/* clang knows the bound of size; older verifiers do not. */
	barrier_var(size);
	barrier_var(at);
	if (at > 2 * FRAMES_BYTES + XP_STACK_BYTES_MAX || size > XP_STACK_PAGE_BYTES)
		return 1;
	s->done += size;
	/* Bytes that cannot be read are zeroed. */
	if (!bpf_probe_read_user(&s->rest[at], size, (void *)from)) {
		s->failures = 0;
		s->head.stack_bytes = s->done;
		return 0;
	}
	s->head.stack_missing |= 1u << (piece & 31);
	return ++s->failures == XP_STACK_FAILURES_MAX;
}

static __always_inline void ship(struct sample *s)
{
	__u32 cpu = bpf_get_smp_processor_id();
	void *ring = bpf_map_lookup_elem(&rings, &cpu);
	__u32 bare = sizeof(s->head) + s->frames_bytes;
	__u32 whole = bare + s->head.stack_bytes;
	__u64 room, used;

	barrier_var(bare);
	barrier_var(whole);
	if (!ring || bare > sizeof(s->head) + 2 * FRAMES_BYTES || whole > sizeof(s->head) + sizeof(s->rest))
		goto lost;
	room = bpf_ringbuf_query(ring, BPF_RB_RING_SIZE);
	used = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
	/* The last quarter is reserved for samples without stacks: it is better to lose stacks than samples. */
	if (!s->head.stack_bytes || used + whole <= room - room / 4) {
		if (!bpf_ringbuf_output(ring, &s->head, whole, xp_wakeup(used, whole, room)))
			return;
		if (!s->head.stack_bytes)
			goto lost;
	}
	s->head.stack_bytes = 0;
	s->head.head.word |= xp_event_word(XP_SAMPLE_NO_ROOM, 0);
	if (!bpf_ringbuf_output(ring, &s->head, bare, BPF_RB_NO_WAKEUP))
		return;
lost:
	count_lost(XP_EVENT_SAMPLE);
}

#define REGISTERS(of)                                                                                                  \
	{                                                                                                              \
		(of)->ax, (of)->dx, (of)->cx, (of)->bx, (of)->si, (of)->di, (of)->r8, (of)->r9, (of)->r10, (of)->r11,  \
		    (of)->r12, (of)->r13, (of)->r14, (of)->r15                                                         \
	}
_Static_assert(XP_SAMPLE_REGS == 14, "REGISTERS");

struct registers {
	__u64 ip;
	__u64 sp;
	__u64 bp;
	__u64 others[XP_SAMPLE_REGS];
};

/* The user code's registers of a thread that is in the kernel, and what the sample's flags say of it. */
static __always_inline __u32 registers_under_kernel(struct task_struct *task, struct registers *user)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	__u64 others[XP_SAMPLE_REGS] = REGISTERS(regs);
	__u32 flags = XP_SAMPLE_KERNEL;

	if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
		flags |= XP_SAMPLE_KTHREAD | XP_SAMPLE_NO_USER;
	else if (!BPF_CORE_READ(task, mm))
		flags |= XP_SAMPLE_NO_USER;
	user->ip = BPF_CORE_READ(regs, ip);
	user->sp = BPF_CORE_READ(regs, sp);
	user->bp = BPF_CORE_READ(regs, bp);
	__builtin_memcpy(user->others, others, sizeof(others));
	if ((__s64)BPF_CORE_READ(regs, orig_ax) >= 0)
		flags |= XP_SAMPLE_SYSCALL;
	if (!user->ip) /* an io_uring thread, for example */
		flags |= XP_SAMPLE_NO_USER;
	return flags;
}

/* Records the kernel's frames, and gets the registers of the user code below. Returns the size of the frames. */
static __always_inline __u32 record_kernel(struct sample *s, struct pt_regs *ctx, struct task_struct *task,
					   struct registers *user, __u32 *flags)
{
	__u32 most = sample_stacks == XP_STACKS_NONE ? sizeof(__u64) : FRAMES_BYTES;
	__u32 frames_bytes;

	s->head.kernel_frames = frames_of(bpf_get_stack(ctx, s->rest, most, 0));
	frames_bytes = s->head.kernel_frames * sizeof(__u64);
	if (frames_bytes > FRAMES_BYTES) /* never true: for the verifier */
		frames_bytes = FRAMES_BYTES;
	*flags = registers_under_kernel(task, user);
	return frames_bytes;
}

/* A page of the area has 32 slots (UPROBE_XOL_SLOT_BYTES, arch/x86/include/asm/uprobes.h). */
#define XOL_SLOT_BYTES 128

/*
 * A thread at a uprobe runs the probed instruction from a copy, in a slot of the area [uprobes]. Returns the address
 * of the instruction itself, for which the other registers hold, too.
 */
static __always_inline __u64 probed_ip(struct task_struct *task, __u64 ip)
{
	struct uprobe_task *utask;
	__u64 in_slot;

	if (!bpf_core_field_exists(task->utask))
		return ip;
	utask = BPF_CORE_READ(task, utask);
	if (!utask)
		return ip;
	in_slot = ip - BPF_CORE_READ(utask, xol_vaddr);
	return in_slot < XOL_SLOT_BYTES ? BPF_CORE_READ(utask, vaddr) + in_slot : ip;
}

static __always_inline void copy_stack(struct sample *s, struct task_struct *task, __u32 tid, __u64 sp, __u32 *flags)
{
	s->wanted = bytes_to_copy(task, tid, sp, flags);
	s->done = 0;
	s->failures = 0;
	for (__u32 piece = 0; piece < XP_STACK_PIECES_MAX; piece++)
		if (copy_piece(piece))
			break;
}

static __always_inline void record_registers(struct sample *s, const struct registers *user)
{
	s->head.head.sp = user->sp >> 3;
	s->head.ip = user->ip;
	s->head.sp = user->sp;
	s->head.bp = user->bp;
	__builtin_memcpy(s->head.regs, user->others, sizeof(user->others));
}

/* With sampled CPUs there are two events that hit a followed thread, and one of them is to record. */
static __always_inline bool is_to_record(void *ctx, struct task_struct *task, __u64 pid_tgid)
{
	bool is_of_cpu;

	if (!watches_births)
		return true;
	is_of_cpu = bpf_get_attach_cookie(ctx) == XP_SAMPLE_COOKIE_CPU;
	if (is_of_cpu != sample_cpus)
		return false;
	return !is_of_cpu || followed(pid_tgid >> 32) || is_ending(task, pid_tgid);
}

/* The registers come first in struct bpf_perf_event_data. */
SEC("perf_event")
int sample(struct pt_regs *ctx)
{
	/* At the top: clang would merge later loads into a modified context pointer. */
	struct registers user = { ctx->ip, ctx->sp, ctx->bp, REGISTERS(ctx) };
	__u64 time = now();
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u32 flags = 0, frames_bytes = 0;
	struct sample *s;

	if (!is_to_record(ctx, task, pid_tgid))
		return 0;
	if (!(__u32)pid_tgid) {
		COUNT(idle);
		return 0;
	}
	s = sample_here();
	if (!s)
		return 0;
	s->head.kernel_frames = 0;
	s->head.user_frames = 0;
	s->head.stack_bytes = 0;
	s->head.stack_missing = 0;
	if (IN_KERNEL(user.ip))
		frames_bytes = record_kernel(s, ctx, task, &user, &flags);
	if (!(flags & XP_SAMPLE_NO_USER))
		user.ip = probed_ip(task, user.ip);
	s->head.head.time = time;
	s->head.head.pid = pid_tgid >> 32;
	s->head.head.tid = pid_tgid;
	record_registers(s, &user);
	bpf_get_current_comm(s->head.comm, sizeof(s->head.comm));
	if (!(flags & XP_SAMPLE_NO_USER) && sample_stacks == XP_STACKS_FRAMES) {
		s->head.user_frames =
		    frames_of(bpf_get_stack(ctx, &s->rest[frames_bytes], FRAMES_BYTES, BPF_F_USER_STACK));
		if (s->head.user_frames)
			*(__u64 *)&s->rest[frames_bytes] = user.ip;
		frames_bytes += s->head.user_frames * sizeof(__u64);
	}
	s->frames_bytes = frames_bytes;
	if (!(flags & XP_SAMPLE_NO_USER) && sample_stacks == XP_STACKS_DUMP)
		copy_stack(s, task, pid_tgid, user.sp, &flags);
	s->head.head.word = xp_event_word(flags, XP_EVENT_SAMPLE);
	ship(s);
	return 0;
}
