// SPDX-License-Identifier: BSD-2-Clause
/*
 * Tests each unwind rule, and each reason for having no rule. The code is in this program, with hand-written unwind
 * tables below; it never runs.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"
#include "unwind/cfi_build.h"
#include "unwind/cfi_table.h"

/* A function of one or more labelled instructions, 16 bytes from the adjacent functions. */
#define FUNCTION(name, body)                                                                                           \
	asm(".pushsection .text.cfi_test, \"ax\", @progbits\n"                                                         \
	    ".balign 32\n"                                                                                             \
	    ".cfi_startproc\n"                                                                                         \
	    "cfi_" #name ":\n" body "ret\n"                                                                            \
	    ".cfi_endproc\n"                                                                                           \
	    ".skip 16\n"                                                                                               \
	    ".popsection");                                                                                            \
	extern const char cfi_##name[]

#define LABEL(name) extern const char cfi_##name[]

/*
 * Used by the functions below: DW_CFA_def_cfa_expression is 0x0f, DW_CFA_expression is 0x10, followed by a length and
 * DW_OP_*.
 */
FUNCTION(leaf, "nop\n");
FUNCTION(pushes, "push %rbx\n"
		 ".cfi_adjust_cfa_offset 8\n"
		 "cfi_pushed_1: sub $0x7fff0,%rsp\n"
		 ".cfi_adjust_cfa_offset 0x7ffe0\n"
		 "cfi_pushed_max: nop\n"
		 ".cfi_adjust_cfa_offset 8\n"
		 "cfi_pushed_more: nop\n"
		 ".cfi_adjust_cfa_offset 8\n"
		 "cfi_pushed_too_much: nop\n");
LABEL(pushed_1);
LABEL(pushed_max);
LABEL(pushed_more);
LABEL(pushed_too_much);
FUNCTION(pointer, "push %rbp\n"
		  ".cfi_def_cfa_offset 16\n"
		  ".cfi_offset %rbp, -16\n"
		  "cfi_pointer_saved: mov %rsp,%rbp\n"
		  ".cfi_def_cfa_register %rbp\n"
		  "cfi_pointer_set: nop\n"
		  ".cfi_offset %rbp, -56\n"
		  "cfi_pointer_elsewhere: nop\n"
		  ".cfi_offset %rbp, -1016\n"
		  "cfi_pointer_far: nop\n"
		  ".cfi_offset %rbp, -1024\n"
		  "cfi_pointer_too_far: nop\n"
		  ".cfi_escape 0x10, 6, 2, 0x23, 20\n" /* at CFA + 20 */
		  "cfi_pointer_odd: nop\n"
		  ".cfi_undefined %rbp\n"
		  "cfi_pointer_lost: nop\n"
		  ".cfi_register %rbp, %rax\n"
		  "cfi_pointer_in_rax: nop\n"
		  ".cfi_same_value %rbp\n"
		  "cfi_pointer_same: nop\n");
LABEL(pointer_saved);
LABEL(pointer_set);
LABEL(pointer_elsewhere);
LABEL(pointer_far);
LABEL(pointer_too_far);
LABEL(pointer_odd);
LABEL(pointer_lost);
LABEL(pointer_in_rax);
LABEL(pointer_same);
FUNCTION(outermost, ".cfi_undefined %rip\n"
		    "nop\n");
FUNCTION(ra_moved, ".cfi_offset %rip, -16\n"
		   "nop\n"
		   ".cfi_register %rip, %rdx\n"
		   "cfi_ra_in_rdx: nop\n");
LABEL(ra_in_rdx);
FUNCTION(odd_cfa, ".cfi_def_cfa_offset 12\n"
		  "nop\n"
		  ".cfi_def_cfa %rsp, -8\n"
		  "cfi_negative_cfa: nop\n"
		  ".cfi_def_cfa %r10, 0\n"
		  "cfi_r10_cfa: nop\n"
		  ".cfi_def_cfa %rax, 4095 * 8\n"
		  "cfi_rax_cfa: nop\n"
		  ".cfi_def_cfa %rax, 4096 * 8\n"
		  "cfi_rax_cfa_too_far: nop\n"
		  ".cfi_def_cfa %xmm0, 8\n"
		  "cfi_xmm0_cfa: nop\n");
LABEL(negative_cfa);
LABEL(r10_cfa);
LABEL(rax_cfa);
LABEL(rax_cfa_too_far);
LABEL(xmm0_cfa);
/* breg7 8, breg16 0, lit15, and, lit11, ge, lit3, shl, plus */
FUNCTION(plt, ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22\n"
	      "nop\n"
	      ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x39, 0x2a, 0x33, 0x24, 0x22\n"
	      "cfi_plt_9: nop\n"
	      /* lit2 */
	      ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x32, 0x24, 0x22\n"
	      "cfi_plt_not: nop\n"
	      /* breg7 16 */
	      ".cfi_escape 0x0f, 11, 0x77, 16, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22\n"
	      "cfi_plt_neither: nop\n");
LABEL(plt_9);
LABEL(plt_not);
LABEL(plt_neither);
/* breg6 -8, deref; rbp: breg6 0 */
FUNCTION(realigned, ".cfi_escape 0x0f, 3, 0x76, 0x78, 0x06\n"
		    ".cfi_escape 0x10, 6, 2, 0x76, 0\n"
		    "nop\n"
		    /* breg7 24, deref, plus_uconst 16 */
		    ".cfi_escape 0x0f, 5, 0x77, 24, 0x06, 0x23, 16\n"
		    ".cfi_offset %rbp, -16\n"
		    "cfi_realigned_plus: nop\n"
		    /* breg10 0, deref */
		    ".cfi_escape 0x0f, 3, 0x7a, 0, 0x06\n"
		    "cfi_realigned_r10: nop\n"
		    /* breg6 -8, deref, deref */
		    ".cfi_escape 0x0f, 4, 0x76, 0x78, 0x06, 0x06\n"
		    "cfi_realigned_twice: nop\n"
		    /* the first again */
		    ".cfi_escape 0x0f, 3, 0x76, 0x78, 0x06\n"
		    ".cfi_escape 0x10, 6, 2, 0x76, 0\n"
		    "cfi_realigned_again: nop\n");
LABEL(realigned_plus);
LABEL(realigned_r10);
LABEL(realigned_twice);
LABEL(realigned_again);
/* CFA rbp + 16, rbp at breg6 0; then CFA rsp + 32, rbp at breg7 8, then at breg6 0, then at an expression. */
FUNCTION(rbp_at_register, ".cfi_def_cfa %rbp, 16\n"
			  ".cfi_escape 0x10, 6, 2, 0x76, 0\n"
			  "nop\n"
			  ".cfi_def_cfa %rsp, 32\n"
			  ".cfi_escape 0x10, 6, 2, 0x77, 8\n"
			  "cfi_rbp_at_rsp: nop\n"
			  ".cfi_escape 0x10, 6, 2, 0x76, 0\n"
			  "cfi_rbp_at_other: nop\n"
			  ".cfi_escape 0x10, 6, 3, 0x76, 0, 0x06\n"
			  "cfi_rbp_at_deref: nop\n");
LABEL(rbp_at_rsp);
LABEL(rbp_at_other);
LABEL(rbp_at_deref);
/* glibc's __restore_rt: CFA breg7 160, deref; rip: breg7 168; rbp: breg7 120 */
FUNCTION(signal, ".cfi_signal_frame\n"
		 ".cfi_escape 0x0f, 4, 0x77, 0xa0, 0x01, 0x06\n"
		 ".cfi_escape 0x10, 16, 3, 0x77, 0xa8, 0x01\n"
		 ".cfi_escape 0x10, 6, 3, 0x77, 0xf8, 0x00\n"
		 "mov $15,%rax\n"
		 "syscall\n");
/* The same without the mark: the return address is not where a call puts it. */
FUNCTION(no_signal, ".cfi_escape 0x0f, 4, 0x77, 0xa0, 0x01, 0x06\n"
		    ".cfi_escape 0x10, 16, 3, 0x77, 0xa8, 0x01\n"
		    "nop\n");
/* Marked, but with different rules, as an interrupt entry in assembly. */
FUNCTION(marked, ".cfi_signal_frame\n"
		 "nop\n");

FUNCTION(remembers, "push %rbp\n"
		    ".cfi_def_cfa_offset 16\n"
		    ".cfi_offset %rbp, -16\n"
		    ".cfi_remember_state\n"
		    "cfi_remembered: pop %rbp\n"
		    ".cfi_restore %rbp\n"
		    ".cfi_def_cfa_offset 8\n"
		    "cfi_restored: ret\n"
		    ".cfi_restore_state\n"
		    "cfi_recalled: .skip 300, 0x90\n"
		    ".cfi_def_cfa_offset 24\n"
		    "cfi_far_on: .skip 70000, 0x90\n"
		    ".cfi_def_cfa_offset 32\n"
		    "cfi_farther_on: nop\n");
LABEL(remembered);
LABEL(restored);
LABEL(recalled);
LABEL(far_on);
LABEL(farther_on);
/* Restores a state that was never remembered: the rows before it stay valid. */
FUNCTION(broken, "nop\n"
		 ".cfi_def_cfa_offset 16\n"
		 "cfi_broken_from: nop\n"
		 ".cfi_escape 0x0b\n"
		 "cfi_broken_here: nop\n"
		 ".cfi_def_cfa_offset 24\n"
		 "cfi_broken_on: nop\n");
LABEL(broken_from);
LABEL(broken_here);
LABEL(broken_on);

/* musl's __restore_rt, after ten bytes without an entry and before sixteen. */
asm(".pushsection .text.cfi_test, \"ax\", @progbits\n"
    ".balign 32\n"
    "cfi_musl_before: .skip 10\n"
    "cfi_musl: movq $15,%rax\n"
    "syscall\n"
    "cfi_musl_after: .skip 16\n"
    ".popsection");
LABEL(musl_before);
LABEL(musl);
LABEL(musl_after);

/* glibc's clone3(), and clone(), whose child has a word on its stack: no entry exists between two others. */
#define CLONE(name, child)                                                                                             \
	asm(".pushsection .text.cfi_test, \"ax\", @progbits\n"                                                         \
	    ".balign 32\n"                                                                                             \
	    ".cfi_startproc\n"                                                                                         \
	    "cfi_" #name "_before: mov %rcx,%r8\n"                                                                     \
	    ".cfi_endproc\n"                                                                                           \
	    "cfi_" #name ": syscall\n"                                                                                 \
	    "test %rax,%rax\n"                                                                                         \
	    "jl 2f\n"                                                                                                  \
	    "je 1f\n"                                                                                                  \
	    "cfi_" #name "_ret: ret\n"                                                                                 \
	    "1: .cfi_startproc\n"                                                                                      \
	    ".cfi_undefined %rip\n"                                                                                    \
	    "cfi_" #name "_child: xor %ebp,%ebp\n" child "2: ret\n"                                                    \
	    ".cfi_endproc\n"                                                                                           \
	    ".skip 16\n"                                                                                               \
	    ".popsection");                                                                                            \
	extern const char cfi_##name[], cfi_##name##_before[], cfi_##name##_ret[], cfi_##name##_child[]
CLONE(clone3, "and $-16,%rsp\n");
CLONE(clone, "pop %rax\n");

/* Two adjacent ranges with the same rule. */
asm(".pushsection .text.cfi_test, \"ax\", @progbits\n"
    ".balign 32\n"
    ".cfi_startproc\n"
    "cfi_twin: ret\n"
    ".cfi_endproc\n"
    ".cfi_startproc\n"
    "cfi_other_twin: ret\n"
    ".cfi_endproc\n"
    ".skip 16\n"
    ".popsection");
LABEL(twin);
LABEL(other_twin);

static struct xp_cfi_table *table;

static int take_offset(struct dl_phdr_info *info, size_t size, void *arg)
{
	uint64_t *address = arg;

	(void)size;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uint64_t distance = *address - info->dlpi_addr - header->p_vaddr;

		if (header->p_type == PT_LOAD && distance < header->p_filesz)
			*address = header->p_offset + distance;
	}
	return 1; /* the program is the first */
}

static uint64_t offset_of(const char *code)
{
	uint64_t offset = (uintptr_t)code;

	dl_iterate_phdr(take_offset, &offset);
	assert_true(offset < (uintptr_t)code);
	return offset;
}

static const struct xp_cfi_row *row_at(const char *code)
{
	return xp_cfi_find(table, offset_of(code));
}

int unit_set_up(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = memfd_create("cfi", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	assert_int_equal(xp_cfi_build(fd, XP_CFI_WHOLE_FILE, to), 0);
	assert_int_equal(fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
	assert_int_equal(xp_cfi_table_open(&table, to), 0);
	close(to);
	close(fd);
	return 0;
}

int unit_tear_down(void **state)
{
	(void)state;
	xp_cfi_table_free(table);
	return 0;
}

TEST(test_plain_rules)
{
	static const struct {
		const char *code;
		uint8_t rule;
		uint16_t cfa;
		int8_t rbp;
	} expected[] = {
		{ cfi_leaf, XP_CFI_RSP, 1, XP_CFI_RBP_SAME },
		{ cfi_leaf + 1, XP_CFI_RSP, 1, XP_CFI_RBP_SAME },
		{ cfi_leaf + 2, XP_CFI_NONE, 0, 0 }, /* after its end */
		{ cfi_pushes, XP_CFI_RSP, 1, XP_CFI_RBP_SAME },
		{ cfi_pushed_1, XP_CFI_RSP, 2, XP_CFI_RBP_SAME },
		{ cfi_pushed_max, XP_CFI_RSP, 65534, XP_CFI_RBP_SAME },
		{ cfi_pushed_more, XP_CFI_RSP, 65535, XP_CFI_RBP_SAME },
		{ cfi_pushed_too_much, XP_CFI_NONE, 0, 0 },
		{ cfi_pointer, XP_CFI_RSP, 1, XP_CFI_RBP_SAME },
		{ cfi_pointer_saved, XP_CFI_RSP, 2, -2 },
		{ cfi_pointer_set, XP_CFI_RBP, 2, -2 },
		{ cfi_pointer_elsewhere, XP_CFI_RBP, 2, -7 },
		{ cfi_pointer_far, XP_CFI_RBP, 2, -127 },
		{ cfi_pointer_too_far, XP_CFI_NONE, 0, 0 },
		{ cfi_pointer_odd, XP_CFI_NONE, 0, 0 },
		{ cfi_pointer_lost, XP_CFI_NONE, 0, 0 },
		{ cfi_pointer_in_rax, XP_CFI_NONE, 0, 0 },
		{ cfi_pointer_same, XP_CFI_RBP, 2, XP_CFI_RBP_SAME },
		{ cfi_outermost, XP_CFI_END, 0, 0 },
		{ cfi_ra_moved, XP_CFI_NONE, 0, 0 },
		{ cfi_ra_in_rdx, XP_CFI_NONE, 0, 0 },
		{ cfi_odd_cfa, XP_CFI_NONE, 0, 0 },
		{ cfi_negative_cfa, XP_CFI_NONE, 0, 0 },
		{ cfi_r10_cfa, XP_CFI_REG, 10 << 12, XP_CFI_RBP_SAME },
		{ cfi_rax_cfa, XP_CFI_REG, 4095, XP_CFI_RBP_SAME },
		{ cfi_rax_cfa_too_far, XP_CFI_NONE, 0, 0 },
		{ cfi_xmm0_cfa, XP_CFI_NONE, 0, 0 },
		{ cfi_plt, XP_CFI_PLT, 11, XP_CFI_RBP_SAME },
		{ cfi_plt_9, XP_CFI_PLT, 9, XP_CFI_RBP_SAME },
		{ cfi_plt_not, XP_CFI_NONE, 0, 0 },
		{ cfi_plt_neither, XP_CFI_NONE, 0, 0 },
		{ cfi_rbp_at_register, XP_CFI_RBP, 2, -2 },
		{ cfi_rbp_at_rsp, XP_CFI_RSP, 4, -3 },
		{ cfi_rbp_at_other, XP_CFI_NONE, 0, 0 },
		{ cfi_rbp_at_deref, XP_CFI_NONE, 0, 0 },
		{ cfi_signal, XP_CFI_SIGNAL, 0, 0 },
		{ cfi_signal + 7, XP_CFI_SIGNAL, 0, 0 }, /* the syscall */
		{ cfi_no_signal, XP_CFI_NONE, 0, 0 },
		{ cfi_marked, XP_CFI_RSP, 1, XP_CFI_RBP_SAME },
		{ cfi_remembers, XP_CFI_RSP, 1, XP_CFI_RBP_SAME },
		{ cfi_remembered, XP_CFI_RSP, 2, -2 },
		{ cfi_restored, XP_CFI_RSP, 1, XP_CFI_RBP_SAME },
		{ cfi_recalled, XP_CFI_RSP, 2, -2 },
		{ cfi_far_on - 1, XP_CFI_RSP, 2, -2 },
		{ cfi_far_on, XP_CFI_RSP, 3, -2 },
		{ cfi_farther_on - 1, XP_CFI_RSP, 3, -2 },
		{ cfi_farther_on, XP_CFI_RSP, 4, -2 },
		{ cfi_broken, XP_CFI_RSP, 1, XP_CFI_RBP_SAME },
		{ cfi_broken_from, XP_CFI_RSP, 2, XP_CFI_RBP_SAME },
		{ cfi_broken_here, XP_CFI_NONE, 0, 0 },
		{ cfi_broken_on, XP_CFI_NONE, 0, 0 },
		{ cfi_musl_before, XP_CFI_NONE, 0, 0 },
		{ cfi_musl_before + 8, XP_CFI_NONE, 0, 0 },
		{ cfi_musl - 1, XP_CFI_SIGNAL, 0, 0 }, /* where the handler's return address is looked up */
		{ cfi_musl + 8, XP_CFI_SIGNAL, 0, 0 },
		{ cfi_musl_after, XP_CFI_NONE, 0, 0 },
		{ cfi_clone3_before, XP_CFI_RSP, 1, XP_CFI_RBP_SAME },
		{ cfi_clone3, XP_CFI_CLONE, 0, 0 },
		{ cfi_clone3_ret, XP_CFI_CLONE, 0, 0 },
		{ cfi_clone3_child, XP_CFI_END, 0, 0 },
		{ cfi_clone, XP_CFI_NONE, 0, 0 },
		{ cfi_clone_ret, XP_CFI_NONE, 0, 0 },
	};

	for (size_t i = 0; i < XP_ARRAY_SIZE(expected); i++) {
		const struct xp_cfi_row *row = row_at(expected[i].code);

		if (row->rule != expected[i].rule || row->cfa != expected[i].cfa || row->rbp != expected[i].rbp)
			fail_msg("row %zu: rule %u, cfa %u, rbp %d", i, row->rule, row->cfa, row->rbp);
	}
}

TEST(test_realigned)
{
	static const struct xp_cfi_deref at_rbp = { .offset = -8,
						    .base = XP_CFI_BASE_RBP,
						    .rbp_base = XP_CFI_BASE_RBP };
	static const struct xp_cfi_deref at_rsp = { .offset = 24, .add = 16, .base = XP_CFI_BASE_RSP };
	const struct xp_cfi_row *row = row_at(cfi_realigned);

	assert_int_equal(row->rule, XP_CFI_DEREF);
	assert_int_equal(row->rbp, 0);
	assert_memory_equal(xp_cfi_deref(table, row), &at_rbp, sizeof(at_rbp));
	assert_ptr_equal(xp_cfi_deref(table, row_at(cfi_realigned_again)), xp_cfi_deref(table, row));
	row = row_at(cfi_realigned_plus);
	assert_int_equal(row->rule, XP_CFI_DEREF);
	assert_int_equal(row->rbp, -2);
	assert_memory_equal(xp_cfi_deref(table, row), &at_rsp, sizeof(at_rsp));
	assert_int_equal(row_at(cfi_realigned_r10)->rule, XP_CFI_NONE);
	assert_int_equal(row_at(cfi_realigned_twice)->rule, XP_CFI_NONE);
}

TEST(test_neighbours_are_one)
{
	assert_int_equal(row_at(cfi_twin)->rule, XP_CFI_RSP);
	assert_ptr_equal(row_at(cfi_twin), row_at(cfi_other_twin));
}

/* Each instruction has one byte, except the last of a function, which includes its ret. */
TEST(test_reasons)
{
	const uint64_t *bytes = xp_cfi_table_header(table)->code_bytes;

	assert_int_equal(bytes[XP_CFI_BAD_ENTRY], 1 + 2);    /* broken_here, broken_on */
	assert_int_equal(bytes[XP_CFI_CFA_REGISTER], 2 + 1); /* xmm0_cfa, realigned_r10 */
	/* pushed_too_much, odd_cfa, negative_cfa, rax_cfa_too_far */
	assert_int_equal(bytes[XP_CFI_CFA_RANGE], 2 + 1 + 1 + 1);
	assert_int_equal(bytes[XP_CFI_CFA_EXPRESSION], 1 + 2 + 1); /* plt_not, plt_neither, realigned_twice */
	assert_int_equal(bytes[XP_CFI_RA_RULE], 1 + 2 + 2);	   /* ra_moved, ra_in_rdx, no_signal */
	assert_int_equal(bytes[XP_CFI_RBP_RULE], 4 + 1 + 2); /* pointer_too_far to _in_rax, rbp_at_other, _at_deref */
	assert_true(bytes[XP_CFI_NO_FDE] > 16 && bytes[XP_CFI_KNOWN] > 1000);
}

TEST(test_no_elf)
{
	int fd = memfd_create("text", MFD_CLOEXEC), to = memfd_create("cfi", MFD_CLOEXEC);

	assert_int_equal(xp_cfi_build(fd, XP_CFI_WHOLE_FILE, to), -ENOEXEC);
	assert_int_equal(write(fd, "#!/bin/sh\n", 10), 10);
	assert_int_equal(xp_cfi_build(fd, XP_CFI_WHOLE_FILE, to), -ENOEXEC);
	assert_int_equal(xp_cfi_build(-1, XP_CFI_WHOLE_FILE, to), -EBADF);
	close(fd);
	close(to);
}
