/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A plan to record the calls of functions without sleds: which instructions to replace with jumps to trampolines.
 *
 * A function has sites: its entry, and its exits: returns, and jumps to other functions. A jump of 5 bytes at a site
 * replaces the instructions of a window. The trampoline records the call, executes the instructions of the window and
 * jumps back. Only a thread that was stopped there may be in the middle of a window:
 * - A window has no jump target except its first byte. Only its last instruction may be a call, so return addresses
 *   are after the window.
 * - An exit's window grows forwards over padding, if only padding follows; then backwards over earlier instructions.
 * - If 5 bytes do not fit, a window may have 2: a short jump to 5 bytes of padding nearby, the spring.
 * - A site without a window needs a probe.
 *
 * Adjacent windows of a function become one. Entry and exits of a function of 3 bytes are one window, too.
 */
#ifndef XPROF_FUNCTIONS_PLAN_H
#define XPROF_FUNCTIONS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/x86_64/trampoline.h"
#include "elf/elf_file.h"

#define XP_WINDOW_BYTES 5      /* jmp rel32 */
#define XP_SPRING_BYTES 2      /* jmp rel8 */
#define XP_WINDOW_BYTES_MAX 64 /* maximum size of the moved instructions */

#define XP_NO_WINDOW UINT32_MAX

struct xp_call_plan_site {
	uint64_t vaddr;
	uint32_t window;    /* index in windows; XP_NO_WINDOW: the site needs a probe */
	uint8_t kind;	    /* enum xp_site_kind */
	bool can_probe;	    /* an exit without a window, or an entry of Go code, where the kernel accepts a uprobe */
	bool has_condition; /* counts only if a condition is true: conditional tail exits, entries of Go (go_plan.h) */
	uint8_t condition;  /* with a condition: low nibble of the opcode of a jump with this condition */
};

struct xp_call_plan_window {
	uint64_t vaddr;
	uint64_t spring; /* target of the short jump; 0: the window has 5 bytes */
	uint8_t bytes;	 /* size of the instructions and padding, all of which move */
	bool has_call;	 /* the last instruction is a call: not possible for threads with a shadow stack */
	bool may_fault;	 /* an instruction may raise SIGSEGV, SIGBUS, SIGFPE or SIGILL (code_decode.h) */
};

enum xp_call_plan_way {
	XP_CALL_PLAN_PATCHED, /* the entry and at least some exits */
	XP_CALL_PLAN_PROBES,  /* the entry needs a probe */
	XP_CALL_PLAN_REFUSED,
};

enum xp_call_plan_reason {
	XP_CALL_PLAN_OK,
	XP_CALL_PLAN_UNDECODED, /* the code does not decode to the end of its unwind entry */
	XP_CALL_PLAN_LOOP,	/* the first instruction is the head of a loop */
	XP_CALL_PLAN_SHARED,	/* shares code with another function */
	XP_CALL_PLAN_LEAVES,	/* jumps to code without an unwind entry */
	XP_CALL_PLAN_AMBIGUOUS, /* an indirect jump may be a switch or a call */
	XP_CALL_PLAN_UNREACHED, /* an exit that nothing seems to reach: it may be data, or an unknown case of a switch
				 */
	XP_CALL_PLAN_ASSEMBLY,	/* in a Go program: written in assembly, or with the ABI of such functions */
	XP_CALL_PLAN_REASONS,
};

struct xp_call_plan_function {
	uint64_t vaddr;
	uint32_t bytes; /* without fragments */
	uint8_t way;	/* enum xp_call_plan_way */
	uint8_t reason; /* enum xp_call_plan_reason, if refused */
	uint32_t first_site;
	uint32_t site_count;  /* 0 if refused */
	uint32_t exit_count;  /* number of exits among the sites */
	uint32_t probe_count; /* exits without a window */
	uint32_t first_window;
	uint32_t window_count; /* includes windows without a site, which make space for springs */
};

struct xp_call_plan {
	struct xp_call_plan_function *functions; /* by address */
	size_t function_count;
	size_t function_room;
	struct xp_call_plan_site *sites; /* for each function: its entry first, then its exits by window and address */
	size_t site_count;
	size_t site_room;
	struct xp_call_plan_window *windows;
	size_t window_count;
	size_t window_room;
};

/*
 * Plans all functions of an untrusted file; functions of Go only with probes (go_plan.h). Time and memory grow with the
 * size of the code. Returns 0 or -errno, with a message (why.h); see xp_code_map_read(). The caller frees the plan in
 * any case.
 */
int xp_call_plan_make(struct xp_call_plan *plan, struct xp_elf_file *file);
void xp_call_plan_free(struct xp_call_plan *plan);

/* Return a word for a table, and a clause for a message. */
const char *xp_call_plan_reason_word(enum xp_call_plan_reason reason);
const char *xp_call_plan_reason_text(enum xp_call_plan_reason reason);

#endif
