/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stub: a page of code that patched sleds call, with a place for a uprobe and a `ret` for each way of recording.
 * It is the only page of a memfd, which the target itself makes, so that it can map it whatever its root, mounts and
 * privileges are; the file is sealed, and an inode for uprobes like any other.
 *
 * What a uprobe costs depends on the instruction under it, and that on the kernel: slots are there in several forms.
 * - a nop of 5 bytes: Linux 6.18 replaces it by a call (commit ba2bfc97b462, "uprobes/x86: Add support to optimize
 *   uprobes"); kernels before emulate or single-step it;
 * - a nop of 10 bytes: kernels that replace that one instead, since a call under the stack pointer may hit a red zone;
 * - a nop of 1 byte: emulated by all kernels that xprof runs on (arch/x86/kernel/uprobes.c, branch_setup_xol_ops()).
 *
 * The call that takes a nop's place leads to a mapping that a child by fork() does not inherit (VM_DONTCOPY), though it
 * does inherit the call: on 6.18.44 a child that comes there dies by SIGSEGV. So the page behind the stub holds a flag
 * that the kernel clears in children (MADV_WIPEONFORK), and a slot returns at once where it is not set. Reading it
 * changes the CPU's flags, which nobody needs at the entry and the end of a function; in its middle, at an event,
 * somebody may: those slots have no guard, and the nop of 1 byte, which is not replaced.
 *
 * One more slot counts calls of functions that a budget has taken out (throttle.h), without the kernel: a counter goes
 * up in the process's own memory. Each CPU has counters to itself, more or less, for a cache line that all of them
 * write to is dear on a large machine. Children start with counters of their own, at 0 (MADV_WIPEONFORK).
 */
#ifndef XPROF_STUB_H
#define XPROF_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_STUB_BYTES 4096 /* of the file */
#define XP_STUB_FLAG 4096  /* offset of the flag, one byte: 1 in the process that the stub was made in */
/* Offset of the counters, of 32 bits, which wrap round: XP_STUB_COUNTERS_MAX for each of XP_STUB_SHARDS. */
#define XP_STUB_COUNTERS 8192
#define XP_STUB_COUNTERS_MAX 128
#define XP_STUB_SHARDS 64
#define XP_STUB_COUNTERS_BYTES (4 * XP_STUB_SHARDS * XP_STUB_COUNTERS_MAX)
#define XP_STUB_ROOM (XP_STUB_COUNTERS + XP_STUB_COUNTERS_BYTES) /* of all pages */
#define XP_STUB_NAME "xprof" /* of the memfd: "/memfd:xprof (deleted)" in /proc/PID/maps */

enum xp_stub_form {
	XP_STUB_NOP5,
	XP_STUB_NOP10,
	XP_STUB_NOP1,
	XP_STUB_FORMS,
};

/* What the sled has left for the program, beside the registers of the function: */
enum xp_stub_slot {
	XP_STUB_CALL,	/* r10d: xp_rec_word() of an entry, exit or tail exit */
	XP_STUB_ARGS,	/* r10d: xp_rec_word() of an entry with arguments */
	XP_STUB_CUSTOM, /* on the stack behind the return address: the registers of the operands, the function number */
	XP_STUB_TYPED,	/* the same */
	XP_STUB_SLOTS,
};

/* Where a slot begins in the page: what sleds call. */
uint32_t xp_stub_entry(enum xp_stub_form form, enum xp_stub_slot slot);
/* Where its uprobe goes. */
uint32_t xp_stub_probe(enum xp_stub_form form, enum xp_stub_slot slot);
/* Where the slot that counts begins. r10d: xp_rec_word() of 4 times the counter's index. */
#define XP_STUB_COUNT 0x400
/* Whether a slot begins at this offset. */
bool xp_stub_is_slot(uint64_t offset);
/* The file's content: an ELF file of one section of code, from XP_STUB_TEXT on. */
#define XP_STUB_TEXT 0x100
#define XP_STUB_TEXT_BYTES 0x340
void xp_stub_make(uint8_t page[XP_STUB_BYTES]);

/* stub_elf.c: all of it but the code. */
void xp_stub_make_elf(uint8_t page[XP_STUB_BYTES]);

/* A file of this process with a stub in it, or -errno; and a mapping of it and of what belongs to it, NULL with errno.
 */
int xp_stub_open(void);
uint8_t *xp_stub_map(int fd);

/* Opens nothing, reads all of fd: whether it is a stub of this version of xprof, sealed against changes. */
bool xp_stub_verify(int fd);
/* Whether a mapping of this name may be a stub: only then is it worth looking into. */
bool xp_stub_is_named(const char *path);

const char *xp_stub_form_name(enum xp_stub_form form);

struct xp_stub_cost {
	double hit_ns;	 /* 0: the kernel takes no probe there */
	bool kills_fork; /* a child by fork() dies of it */
};

/*
 * Finds by trying, in this process and a child, which form costs least of those that do no harm, on a kernel with
 * uprobe_multi links (older ones replace no nop by a call: XP_STUB_NOP1 it is). -errno of what failed; then *form is
 * XP_STUB_NOP1. Takes some hundredths of a second.
 */
int xp_stub_measure(enum xp_stub_form *form, struct xp_stub_cost costs[XP_STUB_FORMS]);

#endif
