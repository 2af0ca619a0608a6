/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stub: a page of code that patched sleds call, with a uprobe site and a `ret` for each way of recording. It is the
 * only page of a memfd. The target itself creates the memfd, so it can map it whatever its root, mounts and privileges
 * are. The file is sealed and is an ordinary inode to uprobes.
 *
 * The cost of a uprobe depends on the instruction under it and on the kernel, so each slot exists in several forms:
 * - a 5-byte nop: Linux 6.18 replaces it with a call (commit ba2bfc97b462, "uprobes/x86: Add support to optimize
 *   uprobes"); earlier kernels emulate or single-step it;
 * - a 10-byte nop: for kernels that replace this nop instead, because a call below the stack pointer may hit a red
 *   zone;
 * - a 1-byte nop: emulated by all kernels that xprof runs on (arch/x86/kernel/uprobes.c, branch_setup_xol_ops()).
 *
 * The call that replaces a nop leads to a mapping that a child does not inherit over fork() (VM_DONTCOPY), but the
 * child does inherit the call: on 6.18.44 a child that executes it dies of SIGSEGV. So the page behind the stub holds a
 * flag that the kernel clears in children (MADV_WIPEONFORK), and a slot returns at once if the flag is not set. Testing
 * the flag changes the CPU's flags. They are dead at the entry and the end of a function, but may be live in its
 * middle, at an event. So the event slots have no guard; they use the 1-byte nop, which is never replaced.
 *
 * One more slot counts calls of functions that a budget has excluded (throttle.h), without entering the kernel: it
 * increments a counter in the process's memory. Each CPU has roughly its own set of counters, because a cache line that
 * all CPUs write to is expensive on a large machine. Children start with counters at 0 (MADV_WIPEONFORK).
 */
#ifndef XPROF_ARCH_X86_64_STUB_H
#define XPROF_ARCH_X86_64_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_STUB_BYTES 4096 /* size of the file */
#define XP_STUB_FLAG 4096  /* offset of the flag, one byte: 1 in the process that the stub was made in */
/*
 * Offset of the counters. They have 32 bits and wrap around. Each of XP_STUB_SHARDS has XP_STUB_COUNTERS_MAX of them.
 */
#define XP_STUB_COUNTERS 8192
#define XP_STUB_COUNTERS_MAX 128
#define XP_STUB_SHARDS 64
#define XP_STUB_COUNTERS_BYTES (4 * XP_STUB_SHARDS * XP_STUB_COUNTERS_MAX)
#define XP_STUB_ROOM (XP_STUB_COUNTERS + XP_STUB_COUNTERS_BYTES) /* size of all pages */
#define XP_STUB_NAME "xprof" /* name of the memfd: "/memfd:xprof (deleted)" in /proc/PID/maps */

enum xp_stub_form {
	XP_STUB_NOP5,
	XP_STUB_NOP10,
	XP_STUB_NOP1,
	XP_STUB_FORMS,
};

/* What the sled passes to the program, in addition to the registers of the function: */
enum xp_stub_slot {
	XP_STUB_CALL,	/* r10d: xp_event_word() of an entry, exit or tail exit */
	XP_STUB_ARGS,	/* r10d: xp_event_word() of an entry with arguments */
	XP_STUB_CUSTOM, /* on the stack above the return address: the registers of the operands, the function number */
	XP_STUB_TYPED,	/* the same */
	XP_STUB_SLOTS,
};

/* Offset of a slot in the page, which sleds call. */
uint32_t xp_stub_entry(enum xp_stub_form form, enum xp_stub_slot slot);
/* Offset of the slot's uprobe. */
uint32_t xp_stub_probe(enum xp_stub_form form, enum xp_stub_slot slot);
/* Offset of the counting slot. r10d: xp_event_word() of 4 times the counter's index. */
#define XP_STUB_COUNT 0x400
/* True if a slot starts at this offset. */
bool xp_stub_is_slot(uint64_t offset);
/* Makes the content of the file: an ELF file with one section of code, from XP_STUB_TEXT on. */
#define XP_STUB_TEXT 0x100
#define XP_STUB_TEXT_BYTES 0x340
void xp_stub_make(uint8_t page[XP_STUB_BYTES]);

/*
 * Creates a file with a stub in this process. Returns the descriptor or -errno.
 *
 * xp_stub_map() maps it together with its flag and counters. Returns NULL with errno set on failure.
 */
int xp_stub_open(void);
uint8_t *xp_stub_map(int fd);

/* True if fd is a stub of this version of xprof and is sealed against writes. Reads all of fd and opens nothing. */
bool xp_stub_verify(int fd);
/* True if a mapping of this name may be a stub and is worth checking. */
bool xp_stub_is_named(const char *path);

const char *xp_stub_form_name(enum xp_stub_form form);

#endif
