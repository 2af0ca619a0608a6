/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unwinds from the registers of a thread and its stack dump to its frames. Does no I/O: its inputs are the copy of the
 * stack, the mappings at that time, and the tables of the mapped files (cfi_table.h). Registers and stack are
 * untrusted: every step reads within the copy, and either raises the stack pointer or ends the walk.
 *
 * Code without a table, or without a rule in it, can be walked by frame pointer. So can JIT code for which the caller
 * knows no rule.
 */
#ifndef XPROF_UNWIND_UNWIND_H
#define XPROF_UNWIND_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>
#include <stdint.h>

#include "target/address_space.h"
#include "unwind/cfi_table.h"

/* One frame of a call chain. */
struct xp_frame {
	uint64_t address;
	const struct xp_vma *vma; /* a copy; NULL: kernel if address is in the upper half, unknown otherwise */
	/*
	 * True if the frame is neither the leaf nor a return address, for example the user ip after the kernel frames.
	 */
	bool interrupted;
};

/* Why a walk ended. */
enum xp_unwind_end {
	XP_UNWIND_COMPLETE,	/* at the outermost frame */
	XP_UNWIND_TRUNCATED,	/* needs more of the stack than was copied */
	XP_UNWIND_NOT_RESIDENT, /* a page of the stack was not in memory */
	XP_UNWIND_NO_DUMP,	/* no stack was copied: the ring buffer had no space for it */
	XP_UNWIND_NO_TABLE,	/* code without unwind tables, and no usable frame pointer */
	XP_UNWIND_NO_RULE,	/* code that the tables omit or describe in an unsupported way */
	XP_UNWIND_TABLE_LATE,	/* a table was not ready in time */
	XP_UNWIND_OTHER_STACK,	/* continues on another stack: a signal handler's alternate stack, a coroutine's */
	XP_UNWIND_LOOP,		/* the stack pointer did not grow */
	XP_UNWIND_DEEP,		/* more frames than XP_UNWIND_FRAMES_MAX */
	XP_UNWIND_BAD_RETURN,	/* return address not in an executable mapping */
	XP_UNWIND_32_BIT,	/* a 32-bit process, whose stack xprof does not read */
	XP_UNWIND_ENDS,
	XP_UNWIND_WAITS = XP_UNWIND_ENDS, /* not an end: a table is being made */
};

#define XP_UNWIND_FRAMES_MAX 1024

/* The unwinding data of JIT code. It may change at any time; the caller returns the data at the time of the sample. */
struct xp_unwind_code {
	/*
	 * Finds the rule for the code at this address. Returns 0 or -errno: -ENOENT if there is none, -EAGAIN if one
	 * may arrive soon.
	 */
	int (*find)(void *arg, uint64_t address, struct xp_cfi_found *found);
	void *arg;
};

/* A sampled thread. */
struct xp_unwind_thread {
	pid_t pid; /* its process */
	pid_t tid;
	uint64_t ip;
	uint64_t sp;
	uint64_t bp;
	const __u64 *regs;    /* as in struct xp_event_sample; NULL: unknown */
	const uint8_t *stack; /* a copy of [sp, sp + stack_bytes) */
	uint32_t stack_bytes;
	uint32_t stack_missing;		   /* as in struct xp_event_sample */
	bool in_syscall;		   /* ip is after a syscall instruction */
	bool is_whole;			   /* the stack ends within the copy */
	bool is_to_top;			   /* the copy ends where earlier walks of the thread ended */
	const struct xp_unwind_code *code; /* NULL: no unwinding data of JIT code */
};

struct xp_unwind_result {
	enum xp_unwind_end end;
	size_t count;	     /* number of frames, leaf first; at least 1 */
	uint32_t used_bytes; /* bytes of the stack that the walk used, from sp on */
	/* XP_UNWIND_WAITS: the file whose table is missing; NULL: unwinding data of JIT code is missing */
	const struct xp_file *file;
	uint64_t file_offset; /* the offset of the code in that file */
};

/*
 * Gets the table for this offset of a file. Returns 0 and the table, valid until the next call, or 0 and NULL if there
 * is no table; -EAGAIN if the table is being made.
 */
typedef int (*xp_unwind_table)(void *arg, const struct xp_file *file, uint64_t offset,
			       const struct xp_cfi_table **table);

struct xp_unwinder;

/* by_frame_pointer: use the frame pointer of code without a rule. Returns 0 or -ENOMEM. */
int xp_unwinder_new(struct xp_unwinder **unwinder, xp_unwind_table table, void *arg, bool by_frame_pointer);
void xp_unwinder_free(struct xp_unwinder *unwinder);

/*
 * Unwinds a stack. Sets frames[XP_UNWIND_FRAMES_MAX]; their mappings are those of space. has_time: the walk may wait,
 * so it ends with XP_UNWIND_WAITS at a table that is being made. Otherwise the walk continues as if there were no
 * table, and ends with XP_UNWIND_TABLE_LATE. Missing unwinding data of JIT code is handled in the same way, except that
 * the walk does not end with XP_UNWIND_TABLE_LATE.
 */
void xp_unwind(struct xp_unwinder *unwinder, const struct xp_address_space *space,
	       const struct xp_unwind_thread *thread, bool has_time, struct xp_frame *frames,
	       struct xp_unwind_result *result);

/* Returns the key in the manifest ("truncated"). */
const char *xp_unwind_end_key(enum xp_unwind_end end);

/* Counts of stacks by end. */

/*
 * Writes a sentence for users: how many stacks are complete, and for each reason the number of incomplete stacks, the
 * most frequent reason first. Returns `to`, or NULL if all stacks are complete.
 */
#define XP_UNWIND_ENDS_TEXT_BYTES 1024
const char *xp_unwind_ends_text(char to[XP_UNWIND_ENDS_TEXT_BYTES], const uint64_t ends[XP_UNWIND_ENDS]);
/* Returns whether more than XP_UNWIND_LACK_MANY of the stacks are incomplete: then print a warning. */
#define XP_UNWIND_LACK_MANY 0.05
bool xp_unwind_ends_lack_many(const uint64_t ends[XP_UNWIND_ENDS]);

#endif
