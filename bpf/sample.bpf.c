// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The program on perf sampling events: records registers, kernel stack, and a stack dump (or user frames, by frame
 * pointers) of the task that the event interrupted. perf runs such programs with interrupts off and never nested on a
 * CPU (bpf_prog_active). So they may build a record in per-CPU memory and copy only the used part into the ring.
 */
#include "births.bpf.h"
#include "stack.bpf.h"

/*
 * cs is not in our pt_regs (it moved into a union in Linux 6.9): kernel code is in the upper half of the address space.
 */
#define IN_KERNEL(ip) ((__s64)(ip) < 0)
/* One per CPU. Not a per-CPU array, whose values are limited to 32 KiB. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample);
} samples SEC(".maps");

struct stack_sizes stack_sizes SEC(".maps");

const volatile __u32 sample_stacks; /* enum xp_sample_stacks */
/* Set by the loader: sample the followed processes with the events of the CPUs instead of those of their threads. */
__u32 sample_cpus = 0;

static __always_inline struct sample *sample_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&samples, &cpu);
}

/*
 * Copies the next piece. Returns non-zero at the end. A separate function, with all changing state in memory: the
 * verifier then checks it once, rather than in every state of the surrounding loop.
 */
__noinline int copy_piece(__u32 number)
{
	struct sample *s = sample_here();
	struct piece piece;

	if (!s || !next_piece(s, &piece))
		return 1;
	return !note_piece(s, number, !bpf_probe_read_user(&s->rest[piece.at], piece.size, (void *)piece.from));
}

static __always_inline void ship(struct sample *s)
{
	void *ring = ring_here();
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

/* Records the kernel's frames, and gets the registers of the user code below. Returns the size of the frames. */
static __always_inline __u32 record_kernel(struct sample *s, struct pt_regs *ctx, struct registers *user, __u32 *flags)
{
	__u32 most = sample_stacks == XP_STACKS_NONE ? sizeof(__u64) : FRAMES_BYTES;
	__u32 frames_bytes;

	s->head.kernel_frames = frames_of(bpf_get_stack(ctx, s->rest, most, 0));
	frames_bytes = s->head.kernel_frames * sizeof(__u64);
	if (frames_bytes > FRAMES_BYTES) /* never true: for the verifier */
		frames_bytes = FRAMES_BYTES;
	*flags = registers_under_kernel(bpf_get_current_task_btf(), user);
	return frames_bytes;
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

/* With sampled CPUs, two events hit a followed thread. Returns whether this event must record it. */
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
	/* First in the function: clang would merge later loads into a modified context pointer. */
	struct registers user = { ctx->ip, ctx->sp, ctx->bp, REGISTERS(ctx) };
	__u64 time = bpf_ktime_get_ns();
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
		frames_bytes = record_kernel(s, ctx, &user, &flags);
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
