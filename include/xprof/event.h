/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The one ABI between the BPF programs and the loader: what travels through the ring buffers, what a uprobe's cookie
 * holds, and how losses are counted. Included from both sides, so it uses only the __uNN types that both have.
 *
 * Every record starts with struct xp_rec. Sizes are fixed, padding is explicit, and all multi-byte fields are in the
 * machine's own order: records never leave the machine.
 */
#ifndef XPROF_RECORD_H
#define XPROF_RECORD_H

#ifndef __bpf__ /* there, vmlinux.h has them */
#include <linux/types.h>
#endif

/* Kinds of a record. 0 to 5 are the sled kinds of the XRay instrumentation map (LLVM, XRayFunctionSledKind). */
enum xp_rec_kind {
	XP_REC_ENTRY = 0,
	XP_REC_EXIT = 1,
	XP_REC_TAIL_EXIT = 2,
	XP_REC_ENTRY_ARGS = 3,	  /* struct xp_rec_args */
	XP_REC_CUSTOM_EVENT = 4,  /* struct xp_rec_event */
	XP_REC_TYPED_EVENT = 5,	  /* struct xp_rec_event */
	XP_REC_EXEC = 8,	  /* struct xp_rec_task: a followed process runs a new program */
	XP_REC_FORK = 9,	  /* struct xp_rec_task: a followed process has a child process */
	XP_REC_EXIT_THREAD = 10,  /* struct xp_rec_task: a thread ended */
	XP_REC_EXIT_PROCESS = 11, /* struct xp_rec_task: the last thread of a process ended */
	XP_REC_LINK_MAP = 12,	  /* struct xp_rec: the dynamic linker has changed the list of loaded objects */
	XP_REC_SAMPLE = 13,	  /* struct xp_rec_sample */
	XP_REC_JIT = 14,	  /* struct xp_rec: a JIT compiler has changed the list of its code */
	XP_REC_NONE = 15,	  /* no record: the word that a sled leaves whose calls are only counted */
	XP_REC_KINDS = 16,
};

/* A function number: unique in a recording over all instrumented objects; 28 bits, as in an FDR log. */
#define XP_FN_BITS 28
#define XP_FN_MAX ((1u << XP_FN_BITS) - 1)

/* Set in xp_rec.time when the TSC counter could not be read: the rest is CLOCK_MONOTONIC in ns. */
#define XP_TIME_KTIME (1ull << 63)

/* Most arguments that --args records: those that the x86-64 System V ABI passes in integer registers. */
#define XP_ARGS_MAX 6

struct xp_rec {
	__u64 time; /* count of the msr PMU's tsc event on this CPU (TSC minus a constant), or see XP_TIME_KTIME */
	__u32 pid;  /* thread group id */
	__u32 tid;
	__u32 word; /* function number | enum xp_rec_kind << XP_FN_BITS */
	__u32 sp;   /* user stack pointer / 8, low 32 bits: at a sled of a call it is the slot of the return address */
};
_Static_assert(sizeof(struct xp_rec) == 24, "xp_rec");

static inline __u32 xp_rec_word(__u32 fn, enum xp_rec_kind kind)
{
	return (fn & XP_FN_MAX) | (__u32)kind << XP_FN_BITS;
}

static inline __u32 xp_rec_fn(const struct xp_rec *rec)
{
	return rec->word & XP_FN_MAX;
}

static inline enum xp_rec_kind xp_rec_kind(const struct xp_rec *rec)
{
	return (enum xp_rec_kind)(rec->word >> XP_FN_BITS);
}

struct xp_rec_args {
	struct xp_rec rec;
	__u32 count; /* 1..XP_ARGS_MAX */
	__u32 pad;
	__u64 args[XP_ARGS_MAX];
};
_Static_assert(sizeof(struct xp_rec_args) == 80, "xp_rec_args");

/*
 * A custom or typed event. The payload follows the head; its room in the ring is one of XP_EVENT_CLASSES, so the
 * record may be longer than head + size. What did not fit or could not be read is missing: size < size_user.
 */
struct xp_rec_event {
	struct xp_rec rec;
	__u32 size;	 /* bytes of payload here */
	__u32 type;	 /* typed events: the user's type, 16 bits in the log */
	__u64 size_user; /* bytes that the program passed */
	__u8 payload[];
};
_Static_assert(sizeof(struct xp_rec_event) == 40, "xp_rec_event");
#define XP_EVENT_PAYLOAD_MAX 4096

struct xp_rec_task {
	struct xp_rec
	    rec;	 /* of what lives, ends or is born; EXEC: tid is the thread that executed, before it took pid */
	__u32 ppid;	 /* FORK: the parent's thread group */
	__u32 exit_code; /* EXIT_*: as in wait(2) */
	__u32 execs;	 /* EXEC: what `targets` counts for the process, with this one */
	__u32 reserved;
	__u64 cpu_ns; /* EXIT_PROCESS: CPU time of all its threads, the last one's up to its last clock tick */
	char comm[16];
};
_Static_assert(sizeof(struct xp_rec_task) == 64, "xp_rec_task");

/* Of a sample, in the place of the function number. */
#define XP_SAMPLE_KERNEL (1u << 0)  /* it hit the kernel: kernel frames come first */
#define XP_SAMPLE_SYSCALL (1u << 1) /* ... in a system call: the user ip is that behind the syscall instruction */
#define XP_SAMPLE_KTHREAD (1u << 2) /* a kernel thread: there are no user frames */
#define XP_SAMPLE_WHOLE (1u << 3)   /* the snapshot reaches up to where the stack of the process began */
#define XP_SAMPLE_TOP (1u << 6)	    /* ... up to struct xp_stack_size.top, or to less for its bytes */
#define XP_SAMPLE_NO_ROOM (1u << 4) /* the ring had no room for the snapshot: it is left out */
#define XP_SAMPLE_NO_USER (1u << 5) /* there is no user code: a kernel thread, or a process that ends */

#define XP_SAMPLE_FRAMES_MAX 127 /* of each of kernel and user: kernel.perf_event_max_stack's default */

/* What is shipped of user stacks. */
enum xp_sample_stacks {
	XP_STACKS_SNAPSHOT, /* a copy of the user stack from sp upwards */
	XP_STACKS_FRAMES,   /* user frames, walked by frame pointers */
	XP_STACKS_NONE,	    /* the sampled instruction alone, of the kernel too */
};

/* A snapshot is copied in pieces, each of which ends with a page of the process. */
#define XP_STACK_PAGE_BYTES 4096u
#define XP_STACK_BYTES_USUAL 65536u
#define XP_STACK_BYTES_MAX (31 * XP_STACK_PAGE_BYTES)
#define XP_STACK_PIECES_MAX (XP_STACK_BYTES_MAX / XP_STACK_PAGE_BYTES + 1)
/*
 * How much of a thread's stack to copy: up to where the process's stack began or up to top, if one of them is within
 * reach above sp, and no more than bytes, which is XP_STACK_BYTES_USUAL until the loader sets it; then, too, where the
 * process's stack began is within reach of XP_STACK_BYTES_MAX.
 */
struct xp_stack_size {
	__u64 top; /* an address; 0: not known */
	__u32 bytes;
	__u32 pad;
};

/* So many pages one after the other that cannot be read are taken for the end of the stack. */
#define XP_STACK_FAILURES_MAX 4

/* Those beside rip, rsp and rbp: rax rdx rcx rbx rsi rdi r8-r15, as the System V ABI (x86-64, figure 3.36) has them. */
#define XP_SAMPLE_REGS 14

/*
 * A sample: registers of the user code (also when it hit the kernel), the kernel's stack, and of the user's what
 * enum xp_sample_stacks says. Frames are leaf first: kernel_frames addresses of the kernel, then user_frames of the
 * process; stack_bytes of the stack, from sp on, follow. As long as all that is.
 */
struct xp_rec_sample {
	struct xp_rec rec;
	__u64 ip;
	__u64 sp;
	__u64 bp;
	__u64 regs[XP_SAMPLE_REGS];
	__u32 kernel_frames;
	__u32 user_frames;
	__u32 stack_bytes;
	__u32 stack_missing; /* bit n: the snapshot's piece n could not be read, and is zero or behind its end */
	char comm[16];
	/* __u64 frames[kernel_frames + user_frames]; __u8 stack[stack_bytes] */
};
_Static_assert(sizeof(struct xp_rec_sample) == 192, "xp_rec_sample");
_Static_assert(XP_STACK_PIECES_MAX <= 32, "xp_rec_sample.stack_missing");

/*
 * The cookie of a sled's uprobe: everything that the BPF program must know of the sled.
 * bits 0-27 function number, 28-31 unused, 32-47 three operand registers of 4 bits (custom event: pointer, size; typed
 * event: type, pointer, size), in the numbering of x86 instructions (rax rcx rdx rbx rsp rbp rsi rdi r8..r15),
 * 48-51 condition code of the jump behind a conditional tail sled (low nibble of the opcode 0x70-0x7f, 0f 80-8f).
 */
#define XP_COOKIE_OPERAND(cookie, i) (((cookie) >> (32 + 4 * (i))) & 0xf)
#define XP_COOKIE_CONDITION(cookie) (((cookie) >> 48) & 0xf)

/* Losses and drops that the BPF side counts, one array of these per CPU. Index of lost[]: enum xp_rec_kind. */
struct xp_bpf_counters {
	__u64 lost[XP_REC_KINDS];      /* no room in the ring */
	__u64 truncated[XP_REC_KINDS]; /* events whose payload was cut at the limit */
	__u64 faulted[XP_REC_KINDS];   /* events whose payload could not be read */
	__u64 idle;		       /* samples of the idle task: counted, not recorded */
	__u64 not_taken;	       /* conditional tail sleds whose jump was not taken: no event */
};

#endif
