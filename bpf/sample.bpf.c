// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The program on perf sampling events: registers, kernel stack and user stack (by frame pointers) of the task that the
 * event interrupted. perf runs such programs with interrupts off and never one inside another on a CPU
 * (bpf_prog_active), so they may build a record in per-CPU memory and copy only what it needs into the ring.
 */
#include "common.bpf.h"

#define PF_KTHREAD 0x00200000
/* cs is not in our pt_regs (it moved into a union in Linux 6.9): kernel code has the upper half of the addresses. */
#define IN_KERNEL(ip) ((__s64)(ip) < 0)

struct sample {
	struct xp_rec_sample head;
	__u64 frames[2 * XP_SAMPLE_FRAMES_MAX + 2];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample);
} samples SEC(".maps");

static __always_inline void count_idle(void)
{
	struct xp_bpf_counters *c = counters_here();

	if (c)
		__sync_fetch_and_add(&c->idle, 1);
}

/* Number of frames that bpf_get_stack() gave. */
static __always_inline __u32 frames_of(long bytes)
{
	return bytes > 0 ? (__u32)bytes / sizeof(__u64) : 0;
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	/* At the top: clang would merge later loads into a modified context pointer. */
	__u64 ip = ctx->regs.ip, sp = ctx->regs.sp, bp = ctx->regs.bp;
	__u64 time = now();
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 flags = 0, zero = 0, size;
	__u64 offset = 0;
	struct sample *s;
	void *ring;
	__u32 cpu;

	if (!(__u32)pid_tgid) {
		count_idle();
		return 0;
	}
	s = bpf_map_lookup_elem(&samples, &zero);
	if (!s)
		return 0;
	s->head.kernel_frames = 0;
	s->head.user_frames = 0;
	if (task->flags & PF_KTHREAD)
		flags |= XP_SAMPLE_KTHREAD;
	if (IN_KERNEL(ip)) {
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

		flags |= XP_SAMPLE_KERNEL;
		s->head.kernel_frames =
		    frames_of(bpf_get_stack(ctx, s->frames, XP_SAMPLE_FRAMES_MAX * sizeof(__u64), 0));
		ip = BPF_CORE_READ(regs, ip);
		sp = BPF_CORE_READ(regs, sp);
		bp = BPF_CORE_READ(regs, bp);
		if ((__s64)BPF_CORE_READ(regs, orig_ax) >= 0)
			flags |= XP_SAMPLE_SYSCALL;
	}
	offset = s->head.kernel_frames;
	if (offset > XP_SAMPLE_FRAMES_MAX)
		offset = XP_SAMPLE_FRAMES_MAX;
	if (!(flags & XP_SAMPLE_KTHREAD))
		s->head.user_frames = frames_of(
		    bpf_get_stack(ctx, &s->frames[offset], XP_SAMPLE_FRAMES_MAX * sizeof(__u64), BPF_F_USER_STACK));
	s->head.rec.time = time;
	s->head.rec.pid = pid_tgid >> 32;
	s->head.rec.tid = pid_tgid;
	s->head.rec.word = xp_rec_word(flags, XP_REC_SAMPLE);
	s->head.rec.sp = sp >> 3;
	s->head.ip = ip;
	s->head.sp = sp;
	s->head.bp = bp;
	bpf_get_current_comm(s->head.comm, sizeof(s->head.comm));

	cpu = bpf_get_smp_processor_id();
	ring = bpf_map_lookup_elem(&rings, &cpu);
	size = s->head.user_frames;
	if (size > XP_SAMPLE_FRAMES_MAX)
		size = XP_SAMPLE_FRAMES_MAX;
	size = sizeof(s->head) + (offset + size) * sizeof(__u64);
	if (!ring || bpf_ringbuf_output(ring, s, size, BPF_RB_NO_WAKEUP))
		count_lost(XP_REC_SAMPLE);
	return 0;
}
