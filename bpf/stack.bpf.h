/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copies a user stack and its registers into a record, for samples and waits. */
#ifndef XPROF_STACK_BPF_H
#define XPROF_STACK_BPF_H

#include "common.bpf.h"

#define PF_KTHREAD 0x00200000
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

/* By thread. */
extern struct stack_sizes {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct xp_stack_size);
} stack_sizes SEC(".maps");

/* Returns the number of frames from the result of bpf_get_stack(). */
static __always_inline __u32 frames_of(long bytes)
{
	return bytes > 0 ? (__u32)bytes / sizeof(__u64) : 0;
}

/* Returns how much of the thread's stack to copy. Arguments and environment are above the start of the stack. */
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

/* A piece of a stack dump. */
struct piece {
	__u64 from;
	__u32 at; /* in rest[] */
	__u32 size;
};

/* Finds the next piece, and counts it as done. Returns false at the end. */
static __always_inline bool next_piece(struct sample *s, struct piece *piece)
{
	__u32 size, at;

	if (s->done >= s->wanted)
		return false;
	piece->from = s->head.sp + s->done;
	size = XP_STACK_PAGE_BYTES - (piece->from & (XP_STACK_PAGE_BYTES - 1));
	if (size > s->wanted - s->done)
		size = s->wanted - s->done;
	at = s->frames_bytes + s->done;
	/* clang proves the bound of size and removes the check, which older verifiers need. */
	barrier_var(size);
	barrier_var(at);
	if (at > 2 * FRAMES_BYTES + XP_STACK_BYTES_MAX || size > XP_STACK_PAGE_BYTES)
		return false;
	s->done += size;
	piece->at = at;
	piece->size = size;
	return true;
}

/*
 * Records whether piece `number` was read; bytes that could not be read are zero. Returns false if copying should stop.
 */
static __always_inline bool note_piece(struct sample *s, __u32 number, bool was_read)
{
	if (was_read) {
		s->failures = 0;
		s->head.stack_bytes = s->done;
		return true;
	}
	s->head.stack_missing |= 1u << (number & 31);
	return ++s->failures < XP_STACK_FAILURES_MAX;
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

/*
 * Returns whether the thread has user code to return to. Kernel threads have none; nor has a thread in execve() from
 * the end of the old program until the kernel has loaded the new one and stored the end of its code (load_elf_binary(),
 * fs/binfmt_elf.c): its registers are those of the old program.
 */
static __always_inline bool has_user_code(struct task_struct *task)
{
	return BPF_CORE_READ(task, mm, end_code); /* 0 if it cannot be read */
}

/* Returns the user registers of a thread that is in the kernel, and sets the flags of a sample that describe them. */
static __always_inline __u32 registers_under_kernel(struct task_struct *task, struct registers *user)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u64 others[XP_SAMPLE_REGS] = REGISTERS(regs);
	__u32 flags = XP_SAMPLE_KERNEL;

	if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
		flags |= XP_SAMPLE_KTHREAD | XP_SAMPLE_NO_USER;
	else if (!has_user_code(task))
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

/* A page of the area has 32 slots (UPROBE_XOL_SLOT_BYTES, arch/x86/include/asm/uprobes.h). */
#define XOL_SLOT_BYTES 128

/*
 * If a thread at a uprobe executes the probed instruction from a copy, in a slot of the area [uprobes], returns the
 * address of the instruction itself. The other registers are the same.
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

static __always_inline void record_registers(struct sample *s, const struct registers *user)
{
	s->head.head.sp = user->sp >> 3;
	s->head.ip = user->ip;
	s->head.sp = user->sp;
	s->head.bp = user->bp;
	__builtin_memcpy(s->head.regs, user->others, sizeof(user->others));
}

#endif
