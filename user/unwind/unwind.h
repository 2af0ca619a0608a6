/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the registers of a thread and a copy of its stack to its frames. Pure: it sees no process, only what was copied
 * of one, what it had mapped at the time, and the tables of the files behind that (cfi_table.h). Registers and stack
 * may hold anything: every step reads within the copy, lets the stack pointer grow, or ends the walk.
 *
 * Code without a table or without a rule in it (JIT code, gaps) is walked by frame pointer, when that is wanted.
 */
#ifndef XPROF_UNWIND_H
#define XPROF_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>
#include <stdint.h>

#include "unwind/cfi_table.h"
#include "profile/profile.h"
#include "target/address_space.h"

/* Why a walk ended. */
enum xp_unwind_end {
	XP_UNWIND_COMPLETE,	/* at the outermost frame */
	XP_UNWIND_TRUNCATED,	/* more of the stack is needed than was copied */
	XP_UNWIND_NOT_RESIDENT, /* a page of the stack was not in memory */
	XP_UNWIND_NO_SNAPSHOT,	/* nothing of the stack was copied: the ring had no room for it */
	XP_UNWIND_NO_TABLE,	/* code without unwind tables, and no frame pointer */
	XP_UNWIND_NO_RULE,	/* code that its file's tables leave out, or describe in a way that is not supported */
	XP_UNWIND_TABLE_LATE,	/* a table was not made in time */
	XP_UNWIND_OTHER_STACK,	/* it goes on on another stack: a signal handler's alternate one, a coroutine's */
	XP_UNWIND_LOOP,		/* the stack pointer did not grow */
	XP_UNWIND_DEEP,		/* more frames than XP_UNWIND_FRAMES_MAX */
	XP_UNWIND_BAD_RETURN,	/* a return address to where nothing is mapped executable */
	XP_UNWIND_ENDS,
	XP_UNWIND_WAITS = XP_UNWIND_ENDS, /* not an end: a table is being made */
};

#define XP_UNWIND_FRAMES_MAX 1024

/* A thread, as it was sampled. */
struct xp_unwind_thread {
	pid_t tid; /* its last walk is remembered, which makes the next one cheaper; 0: it is not */
	uint64_t ip;
	uint64_t sp;
	uint64_t bp;
	const __u64 *regs;    /* as in struct xp_rec_sample; NULL: not known */
	const uint8_t *stack; /* a copy of [sp, sp + stack_bytes) */
	uint32_t stack_bytes;
	uint32_t stack_missing; /* as in struct xp_rec_sample */
	bool is_whole;		/* there is no more stack above the copy */
	bool is_to_top;		/* it goes as far as other walks of the thread went */
};

struct xp_unwind_result {
	enum xp_unwind_end end;
	size_t count;		      /* frames found, leaf first; at least 1 */
	uint32_t used_bytes;	      /* of the stack, from sp on */
	const struct xp_file *file;   /* XP_UNWIND_WAITS: whose table */
	uint64_t file_offset;	      /* and for what of it */
	struct xp_profile_path *path; /* of these frames; NULL: they are not remembered. Valid until the next walk. */
};

/*
 * The table for this place in a file: 0 and the table, valid until the next call, or NULL when there is none; -EAGAIN:
 * it is being made.
 */
typedef int (*xp_unwind_table)(void *arg, const struct xp_file *file, uint64_t offset,
			       const struct xp_cfi_table **table);

struct xp_unwinder;

/* by_frame_pointer: where there is no rule. -ENOMEM. */
int xp_unwinder_new(struct xp_unwinder **unwinder, xp_unwind_table table, void *arg, bool by_frame_pointer);
void xp_unwinder_free(struct xp_unwinder *unwinder);

/*
 * Fills frames[XP_UNWIND_FRAMES_MAX], whose mappings are those of space. has_time: a table that is being made ends the
 * walk with XP_UNWIND_WAITS; otherwise the walk goes on as if there were none, and ends with XP_UNWIND_TABLE_LATE.
 */
void xp_unwind(struct xp_unwinder *unwinder, const struct xp_space *space, const struct xp_unwind_thread *thread,
	       bool has_time, struct xp_profile_frame *frames, struct xp_unwind_result *result);

/* As words in the manifest ("truncated"), and in a sentence ("more stack than was copied"). */
const char *xp_unwind_end_key(enum xp_unwind_end end);
const char *xp_unwind_end_text(enum xp_unwind_end end);

#endif
