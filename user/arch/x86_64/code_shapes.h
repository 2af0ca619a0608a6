/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Machine code that is recognized by its bytes: where no unwind entry covers it, and where a probe must not be. Pure,
 * bytes only.
 *
 * Sources: System V ABI for x86-64, section 5.2 (procedure linkage table, PLT) and lld's PLT with endbr64; the signal
 * returns of musl and Go; glibc's and musl's crti.S and crtn.S; glibc's clone3.S; runtime/asm_amd64.s of Go 1.17 to
 * 1.24.
 */
#ifndef XPROF_ARCH_X86_64_CODE_SHAPES_H
#define XPROF_ARCH_X86_64_CODE_SHAPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- PLT entries, through which a program calls into libraries ---- */

#define XP_PLT_ENTRY_BYTES 16
/* The first one of .plt begins with a push, which has this many bytes. */
#define XP_PLT_FIRST_PUSH_BYTES 6

/* Returns whether this is the first entry of .plt, to which lazy entries jump after their push. */
bool xp_plt_is_first(const uint8_t code[XP_PLT_ENTRY_BYTES]);
/* Returns the offset after the push of a lazy entry; 0 if this is not a lazy entry. */
uint8_t xp_plt_pushed_at(const uint8_t code[XP_PLT_ENTRY_BYTES]);
/* Returns whether the entry only jumps. */
bool xp_plt_is_jump(const uint8_t code[XP_PLT_ENTRY_BYTES]);

/* ---- nops ---- */

/*
 * Number of bytes of the nops of several bytes that the code begins with, endbr64 among them (Intel SDM, volume 2, NOP
 * and ENDBR64). A nop of 1 byte ends them. Returns `bytes` if the last nop does not end before.
 */
size_t xp_long_nops_bytes(const uint8_t *code, size_t bytes);

/* ---- other code ---- */

/*
 * Finds a return from a signal handler: mov $__NR_rt_sigreturn,%rax; syscall. Other code cannot use these two
 * instructions, since the kernel takes rsp for the address of a ucontext_t. Returns its first byte, or NULL.
 */
#define XP_SIGNAL_RETURN_BYTES 9
const uint8_t *xp_signal_return_find(const uint8_t *code, size_t bytes);

/*
 * .init and .fini (System V ABI, "Special Sections"). Each is one function, joined from pieces by the linker: the first
 * piece reserves one word of the stack for all, the last one frees it before it returns. first: the section's first
 * bytes, last: its last ones. Returns the offset behind the reservation; 0 if this is another function.
 */
#define XP_INIT_FIRST_BYTES 8
#define XP_INIT_LAST_BYTES 5
size_t xp_init_reserved_at(const uint8_t first[XP_INIT_FIRST_BYTES], const uint8_t last[XP_INIT_LAST_BYTES],
			   uint64_t section_bytes);

/*
 * The code from the system call in glibc's clone3() to the child's first instruction. It matches clone3() but not
 * clone(), whose child pops the function that it calls. Returns the number of its bytes; 0 if this is other code.
 */
#define XP_CLONE3_BYTES 20
size_t xp_clone3_bytes(const uint8_t code[XP_CLONE3_BYTES]);

/*
 * Go's runtime.goexit: nop; call; nop. Go makes its second byte the return address of a goroutine's first function.
 * What lies above that on the stack is no part of it.
 */
#define XP_GO_EXIT_BYTES 7
bool xp_go_is_exit(const uint8_t code[XP_GO_EXIT_BYTES]);

/* The part of a function in which Go's runtime is on the stack of the thread (g0), up to the end of a call there. */
struct xp_go_switch {
	size_t start;
	size_t end;
	bool is_for_good; /* runtime.mcall: the goroutine does not wait for the call; Go's own traces end here, too */
};
/* Finds the first switch to g.sched.sp of g0 with a call after it. Returns false if there is none. */
bool xp_go_switch_find(const uint8_t *code, size_t bytes, struct xp_go_switch *found);

/*
 * The page of code that the kernel maps without a file, and that probes on a nop call (arch/x86/kernel/uprobes.c,
 * uprobe_trampoline_entry, Linux 6.18). Returns how many words are on the stack at this offset, with the return
 * address; 0 behind its end.
 */
unsigned int xp_uprobe_trampoline_words(uint64_t offset);

#endif
