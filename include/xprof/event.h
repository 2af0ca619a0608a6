/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The ABI between the BPF programs and the loader: the events in the ring buffers, the content of a uprobe's cookie,
 * and the loss counters. Both sides include this file, so it uses only __uNN types, which both sides define.
 *
 * Every event starts with struct xp_event. Sizes are fixed, padding is explicit, and all multi-byte fields are in
 * native byte order, because events never leave the machine.
 */
#ifndef XPROF_EVENT_H
#define XPROF_EVENT_H

#ifndef __bpf__ /* vmlinux.h defines these types for BPF */
#include <linux/types.h>
#endif

/*
 * 0 to 5 are the kinds of sleds in the XRay instrumentation map (LLVM, XRayFunctionSledKind). user/event/kinds.c
 * describes each kind for the loader.
 */
enum xp_event_kind {
	XP_EVENT_ENTRY,
	XP_EVENT_EXIT,
	XP_EVENT_TAIL_EXIT,
	XP_EVENT_ENTRY_ARGS,   /* struct xp_event_args */
	XP_EVENT_CUSTOM,       /* struct xp_event_payload */
	XP_EVENT_TYPED,	       /* struct xp_event_payload */
	XP_EVENT_GO_ENTRY,     /* struct xp_event_go: a call of a Go function began */
	XP_EVENT_GO_EXIT,      /* struct xp_event_go: such a call ended */
	XP_EVENT_THREAD,       /* struct xp_event_thread: a task that shares a followed process's memory began */
	XP_EVENT_THREAD_GONE,  /* struct xp_event_thread: such a task of another process executed a program or exited */
	XP_EVENT_EXEC,	       /* struct xp_event_task: a followed process runs a new program */
	XP_EVENT_FORK,	       /* struct xp_event_task: a followed process has a child process */
	XP_EVENT_EXIT_THREAD,  /* struct xp_event_task: a thread exited */
	XP_EVENT_EXIT_PROCESS, /* struct xp_event_task: the last thread of a process exited */
	XP_EVENT_LINK_MAP,     /* struct xp_event: the dynamic linker has changed the list of loaded objects */
	XP_EVENT_JIT,	       /* struct xp_event: a JIT compiler has changed the list of its code */
	XP_EVENT_SAMPLE,       /* struct xp_event_sample */
	XP_EVENT_SWITCH,       /* struct xp_event_switch: the scheduler has switched to another thread */
	XP_EVENT_WAIT_BEGIN,   /* struct xp_event_sample: a wait began; without kernel frames */
	XP_EVENT_WAIT,	       /* struct xp_event_wait: a wait ended */
	XP_EVENT_WAIT_SUM,     /* struct xp_event_wait_sum */
	XP_EVENT_USDT,	       /* struct xp_event_usdt */
	XP_EVENT_KINDS,
	XP_EVENT_NONE = 255, /* no event: the kind of a sled whose calls are only counted */
};
#define XP_EVENT_KINDS_ROOM 32 /* a power of two, at least XP_EVENT_KINDS: BPF bounds indices with it */

/*
 * A function ID, unique in a recording. An FDR log has space for 28 bits; the word of an event has 24, and 8 for the
 * kind.
 */
#define XP_FN_BITS 24
#define XP_FN_MAX ((1u << XP_FN_BITS) - 1)

/* Limit of --args: the arguments that the x86-64 System V ABI passes in integer registers. */
#define XP_ARGS_MAX 6

struct xp_event {
	__u64 time; /* CLOCK_MONOTONIC in ns */
	__u32 pid;  /* thread group id */
	__u32 tid;
	__u32 word; /* function ID, or flags of the kind; | enum xp_event_kind << XP_FN_BITS */
	__u32 sp;   /* user stack pointer / 8, low 32 bits: at a call's sled, the slot of the return address */
};
_Static_assert(sizeof(struct xp_event) == 24, "xp_event");

static inline __u32 xp_event_word(__u32 fn, enum xp_event_kind kind)
{
	return (fn & XP_FN_MAX) | (__u32)kind << XP_FN_BITS;
}

static inline __u32 xp_event_fn(const struct xp_event *event)
{
	return event->word & XP_FN_MAX;
}

static inline enum xp_event_kind xp_event_kind(const struct xp_event *event)
{
	return (enum xp_event_kind)(event->word >> XP_FN_BITS);
}

/*
 * Number of calls that the thread had recorded in its call ring before this record (user/sled/call_rings.h), modulo
 * 2^32, plus one. It orders these calls and this record. 0: no call ring, or unknown to BPF.
 */
typedef __u32 xp_event_position;

/* Why a call is recorded through the kernel although its sled records in memory. */
enum xp_fell_through {
	XP_FELL_NOT,	 /* the call did not come from the stub's slow path */
	XP_FELL_NO_RING, /* at the stub: the thread had no call ring */
	XP_FELL_FULL,	 /* at the stub: the call ring was full */
};

/* An entry or exit without arguments, if calls are recorded in memory. */
struct xp_event_call {
	struct xp_event head;
	xp_event_position position;
	__u32 fell_through; /* enum xp_fell_through */
};
_Static_assert(sizeof(struct xp_event_call) == 32, "xp_event_call");

/*
 * A call of a Go function. The runtime moves stacks, and runs a goroutine on different threads. So the call contains
 * the goroutine, and head.sp is relative to the upper end of its stack, which moving does not change.
 */
struct xp_event_go {
	struct xp_event head;
	__u64 goroutine; /* address of its struct g; 0: r14 was not such an address, and head.sp is as in other calls */
};
_Static_assert(sizeof(struct xp_event_go) == 32, "xp_event_go");

struct xp_event_args {
	struct xp_event head;
	__u32 count; /* 1..XP_ARGS_MAX */
	xp_event_position position;
	__u64 args[XP_ARGS_MAX];
};
_Static_assert(sizeof(struct xp_event_args) == 80, "xp_event_args");

/*
 * A custom or typed event. The payload follows the head. A ring record has one of a few sizes (room_of() in
 * sled.bpf.c), so it may be longer than head + size. If a part of the payload did not fit or could not be read, size <
 * size_user.
 */
struct xp_event_payload {
	struct xp_event head;
	__u16 size; /* size of the payload in this record */
	__u16 type; /* typed events: type that the program chose */
	xp_event_position position;
	__u64 size_user; /* bytes that the program passed */
	__u8 payload[];
};
_Static_assert(sizeof(struct xp_event_payload) == 40, "xp_event_payload");
#define XP_EVENT_PAYLOAD_MAX 4096

struct xp_event_task {
	/*
	 * The task that runs, exits or is created. EXEC: tid is the thread that executed the program, before it took
	 * over pid.
	 */
	struct xp_event head;
	__u32 ppid;		    /* FORK: the parent's thread group */
	__u32 no_tsc;		    /* EXIT_*: 1: the task may not execute rdtsc, as in XP_TASK_NO_TSC */
	__u32 exit_code;	    /* EXIT_*: as in wait(2) */
	__u32 execs;		    /* EXEC: the count in `targets` for the process, including this exec */
	xp_event_position position; /* EXIT_THREAD */
	__u32 taken_back;	    /* EXIT_THREAD: as in struct xp_event_thread */
	/*
	 * EXIT_PROCESS: CPU time of its threads, except a first thread that exited before the others. The time of the
	 * last thread is as of its last clock tick.
	 */
	__u64 cpu_ns;
	char comm[16];
};
_Static_assert(sizeof(struct xp_event_task) == 72, "xp_event_task");

/* In clone_flags: the task must not execute rdtsc (PR_SET_TSC), which call rings require. fs_base is 0 then. */
#define XP_TASK_NO_TSC (1ull << 63)
/* In clone_flags: not a new task, but a thread that runs without a ring, or with a full ring. */
#define XP_TASK_TOLD (1ull << 62)
struct xp_event_thread {
	struct xp_event head; /* pid: the process whose memory it shares; tid: the new task */
	__u64 fs_base;	      /* fs base of the new task, before its first instruction; 0: it can have no call ring */
	__u64 clone_flags;
	/* Position in the ring of this fs base before the task: of an earlier thread, or of the parent of a vfork(). */
	xp_event_position position;
	__u32 taken_back; /* with a position: number of discarded short calls in the ring before, modulo 2^32 */
};
_Static_assert(sizeof(struct xp_event_thread) == 48, "xp_event_thread");

/* The key of a call ring in the BPF map `call_headers`. */
struct xp_ring_key {
	__u64 fs_base;
	__u64 pid; /* process to which the memory belongs */
};

/* Flags of a sample, and of the start and the end of a wait, stored instead of a function ID. */
#define XP_SAMPLE_KERNEL (1u << 0)  /* the sample hit the kernel: kernel frames come first */
#define XP_SAMPLE_SYSCALL (1u << 1) /* ... in a system call: the user ip is after the syscall instruction */
#define XP_SAMPLE_KTHREAD (1u << 2) /* a kernel thread: there are no user frames */
#define XP_SAMPLE_WHOLE (1u << 3)   /* the stack dump reaches the start of the process's stack */
#define XP_SAMPLE_TOP (1u << 6)	    /* ... up to struct xp_stack_size.top, or less if limited by its bytes */
#define XP_SAMPLE_NO_ROOM (1u << 4) /* the ring had no space for the stack dump, which is omitted */
#define XP_SAMPLE_NO_USER (1u << 5) /* there is no user code: a kernel thread, or a process that is exiting */

#define XP_SAMPLE_FRAMES_MAX 127 /* for kernel and user frames each: the default of kernel.perf_event_max_stack */

/* The content of user stacks in a sample. */
enum xp_sample_stacks {
	XP_STACKS_DUMP,	  /* a copy of the user stack from sp upwards */
	XP_STACKS_FRAMES, /* user frames, walked by frame pointers */
	XP_STACKS_NONE,	  /* only the sampled instruction, also for the kernel */
};

/* A stack dump is copied in pieces. Each piece ends at the end of a page of the process. */
#define XP_STACK_PAGE_BYTES 4096u
#define XP_STACK_BYTES_USUAL 65536u
#define XP_STACK_BYTES_MAX (31 * XP_STACK_PAGE_BYTES)
#define XP_STACK_PIECES_MAX (XP_STACK_BYTES_MAX / XP_STACK_PAGE_BYTES + 1)
/*
 * How much of a thread's stack to copy: up to the start of the process's stack, or up to top, if either is within reach
 * above sp, and at most `bytes`. Until the loader sets it, `bytes` is XP_STACK_BYTES_USUAL, or XP_STACK_BYTES_MAX if
 * the start of the process's stack is that close.
 */
struct xp_stack_size {
	__u64 top; /* an address; 0: unknown */
	__u32 bytes;
	__u32 pad;
};

/* This many consecutive unreadable pages mean the end of the stack. */
#define XP_STACK_FAILURES_MAX 4

/*
 * Registers other than rip, rsp and rbp: rax rdx rcx rbx rsi rdi r8-r15, the order of the System V ABI (x86-64, figure
 * 3.36).
 */
#define XP_SAMPLE_REGS 14

/*
 * A sample: registers of the user code (also if it hit the kernel), the kernel stack, and the part of the user stack
 * selected by enum xp_sample_stacks. Frames are leaf first: kernel_frames kernel addresses, then user_frames user
 * addresses. stack_bytes of the stack, from sp on, follow. The record ends there.
 */
struct xp_event_sample {
	struct xp_event head;
	__u64 ip;
	__u64 sp;
	__u64 bp;
	__u64 regs[XP_SAMPLE_REGS];
	__u32 kernel_frames;
	__u32 user_frames;
	__u32 stack_bytes;
	__u32 stack_missing; /* bit n: piece n of the stack dump could not be read, and is zero or past its end */
	char comm[16];
	/* __u64 frames[kernel_frames + user_frames]; __u8 stack[stack_bytes] */
};
_Static_assert(sizeof(struct xp_event_sample) == 192, "xp_event_sample");
_Static_assert(XP_STACK_PIECES_MAX <= 32, "xp_event_sample.stack_missing");

/* Flags of a switch: how the thread left the CPU. */
#define XP_SWITCH_RUNNABLE (1u << 0) /* the thread was preempted, or yielded */
#define XP_SWITCH_DEAD (1u << 1)     /* the thread has exited */

/* A thread leaves a CPU and another thread gets it. tid 0: a thread that is not recorded, or none. */
struct xp_event_switch {
	struct xp_event head; /* who leaves */
	__u32 next_pid;	      /* the thread that gets the CPU */
	__u32 next_tid;
};
_Static_assert(sizeof(struct xp_event_switch) == 32, "xp_event_switch");

/*
 * The cookie of a sled's uprobe: all that the BPF program needs to know about the sled.
 * bits 0-23   function number
 * bits 24-31  enum xp_event_kind, if it is a probe of a Go function
 * bits 32-47  three operand registers of 4 bits (custom event: pointer, size; typed event: type, pointer, size), in the
 *             numbering of x86 instructions (rax rcx rdx rbx rsp rbp rsi rdi r8..r15)
 * bits 48-51  condition code of the jump behind a conditional tail sled (low nibble of the opcode 0x70-0x7f, 0f 80-8f)
 * bit 52      the probe of a Go function counts only if this condition holds
 */
#define XP_COOKIE_OPERAND(cookie, i) (((cookie) >> (32 + 4 * (i))) & 0xf)
#define XP_COOKIE_CONDITION(cookie) (((cookie) >> 48) & 0xf)
#define XP_COOKIE_HAS_CONDITION (1ull << 52)

/* Limit of <sys/sdt.h>. */
#define XP_USDT_ARGS_MAX 12

enum xp_usdt_operand_kind {
	XP_USDT_UNSUPPORTED, /* such as a floating-point register */
	XP_USDT_CONSTANT,
	XP_USDT_REGISTER,
	XP_USDT_MEMORY,
};

/* Registers of an operand: 0 to 15 as in a cookie, and these. */
#define XP_USDT_IP 16
#define XP_USDT_NO_REGISTER 17

/* Where an argument of a USDT probe is. Memory: at base + (index << shift) + value. */
struct xp_usdt_operand {
	__u8 kind;  /* enum xp_usdt_operand_kind */
	__u8 bytes; /* 1, 2, 4 or 8 */
	__u8 is_signed;
	__u8 base;
	__u8 index;
	__u8 shift; /* 0 to 3 */
	__u8 pad[2];
	__u64 value; /* the constant, or the displacement */
};
_Static_assert(sizeof(struct xp_usdt_operand) == 16, "xp_usdt_operand");

/* An element of the BPF map `usdt_places`. The cookie of the place's uprobe is its index. */
struct xp_usdt_place {
	__u32 count;
	__u32 pad;
	struct xp_usdt_operand operands[XP_USDT_ARGS_MAX];
};
#define XP_USDT_PLACES_MAX 4096u /* a power of two; openjdk-17 has 517 */

/* A thread has hit a USDT probe. The index of the place is in the bits of the function ID. */
struct xp_event_usdt {
	struct xp_event head;
	__u64 ip;
	__u32 missing; /* bit n: args[n] is 0, because it is unsupported or its memory could not be read */
	__u32 pad;
	char comm[16];
	__u64 args[XP_USDT_ARGS_MAX]; /* extended to 64 bits, by sign if signed */
};
_Static_assert(sizeof(struct xp_event_usdt) == 152, "xp_event_usdt");

/* The cookie of a sampling event of a CPU that samples followed processes only. Other sampling events have none. */
#define XP_SAMPLE_COOKIE_CPU 1

/* A thread that the caller of the BPF program `list_tracees` traces. */
struct xp_bpf_tracee {
	__u64 fs_base; /* 0: a thread that the kernel created for itself (io_uring, vhost) */
	__u32 tid;
	__u32 no_tsc; /* 1: see XP_TASK_NO_TSC */
};
#define XP_BPF_TRACEES_MAX 256 /* as many as there are call rings */

/* Losses and drops that the BPF side counts, one struct per CPU. lost[] is indexed by enum xp_event_kind. */
struct xp_bpf_counters {
	__u64 lost[XP_EVENT_KINDS_ROOM];      /* no space in the ring */
	__u64 truncated[XP_EVENT_KINDS_ROOM]; /* events with a payload beyond the limit */
	__u64 faulted[XP_EVENT_KINDS_ROOM];   /* events with an unreadable payload */
	__u64 idle;			      /* samples of the idle task: counted, not recorded */
	__u64 not_taken;		      /* conditional tail sleds whose jump was not taken: no event */
};

#endif
