/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recognizes machine code by its bytes: code without an unwind entry, and code where a probe must not be. Reads only
 * the bytes.
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
/* The first entry of .plt begins with a push of this many bytes. */
#define XP_PLT_FIRST_PUSH_BYTES 6

/* Returns whether this is the first entry of .plt. Lazy entries jump to it after their push. */
bool xp_plt_is_first(const uint8_t code[XP_PLT_ENTRY_BYTES]);
/* Returns the offset of the instruction after the push of a lazy entry; 0 if this is not a lazy entry. */
uint8_t xp_plt_pushed_at(const uint8_t code[XP_PLT_ENTRY_BYTES]);
/* Returns whether the entry only jumps. */
bool xp_plt_is_jump(const uint8_t code[XP_PLT_ENTRY_BYTES]);

/* ---- nops ---- */

/*
 * Returns the number of bytes of the multi-byte nops (with endbr64) at the start of the code (Intel SDM, volume 2, NOP
 * and ENDBR64). Stops at a 1-byte nop. Returns `bytes` if the last nop extends to the end of the code or beyond.
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
 * .init and .fini (System V ABI, "Special Sections"). The linker joins each function from pieces: the first piece
 * reserves a word of stack, the last piece frees it and returns. first: first bytes of the section; last: its last
 * bytes. Returns the offset after the reservation; 0 if the section has another form.
 */
#define XP_INIT_FIRST_BYTES 8
#define XP_INIT_LAST_BYTES 5
size_t xp_init_reserved_at(const uint8_t first[XP_INIT_FIRST_BYTES], const uint8_t last[XP_INIT_LAST_BYTES],
			   uint64_t section_bytes);

/*
 * The code from the system call in glibc's clone3() to the child's first instruction. It matches clone3() but not
 * clone(): the child of clone() pops the function that it calls. Returns the number of bytes; 0 for other code.
 */
#define XP_CLONE3_BYTES 20
size_t xp_clone3_bytes(const uint8_t code[XP_CLONE3_BYTES]);

/*
 * Go's runtime.goexit: nop; call; nop. Go stores the address of its second byte as the return address of a goroutine's
 * first function. The stack of the goroutine ends there.
 */
#define XP_GO_EXIT_BYTES 7
bool xp_go_is_exit(const uint8_t code[XP_GO_EXIT_BYTES]);

/* The part of a function that runs on the thread's stack (g0) instead of the goroutine's, up to the end of a call. */
struct xp_go_switch {
	size_t start;
	size_t end;
	bool is_for_good; /* runtime.mcall: the goroutine does not wait for the call; Go's own traces end here, too */
};
/* Finds the first switch to g.sched.sp of g0 with a call after it. Returns false if there is none. */
bool xp_go_switch_find(const uint8_t *code, size_t bytes, struct xp_go_switch *found);

/*
 * The page of code that the kernel maps without a file and calls from a probed nop (arch/x86/kernel/uprobes.c,
 * uprobe_trampoline_entry, Linux 6.18). Returns the number of words on the stack at this offset, including the return
 * address; 0 after the end of the code.
 */
unsigned int xp_uprobe_trampoline_words(uint64_t offset);

#endif
