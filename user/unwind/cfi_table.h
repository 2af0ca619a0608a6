/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How to find the caller's frame from any instruction of one ELF file: what its unwind tables (.eh_frame,
 * .debug_frame) say, boiled down to eight bytes for each stretch of code with one rule, and looked up by the code's
 * offset in the file, for a mapping gives that without a look at the program headers. Code behind the first 4 GiB of a
 * file has none.
 *
 * A table is that of a piece of a file, or of all of it. They come from a process that reads hostile files
 * (cfi_tables.h), as a sealed memfd: struct xp_cfi_header, its
 * rows in the order of pc, its exotic rows. The format has no version: both sides are one program.
 *
 * Registers are those of the System V ABI for x86-64, table 3.36; the canonical frame address is DWARF's (section 6.4):
 * the value of rsp before the call. In all rules the return address is at CFA - 8 and the caller's rsp is the CFA.
 */
#ifndef XPROF_CFI_TABLE_H
#define XPROF_CFI_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* Numbers of registers. */
enum { XP_CFI_REG_RBX = 3, XP_CFI_REG_RBP = 6, XP_CFI_REG_RSP = 7, XP_CFI_REG_R12 = 12, XP_CFI_REG_RA = 16 };

/* One for 8 bytes of a piece's code (cfi_tables.h); compilers make one for 30 to 80. */
#define XP_CFI_ROWS_MAX (1u << 19)

enum xp_cfi_rule {
	XP_CFI_NONE,   /* nothing is known here */
	XP_CFI_RSP,    /* CFA = rsp + 8 * cfa */
	XP_CFI_RBP,    /* CFA = rbp + 8 * cfa */
	XP_CFI_PLT,    /* CFA = rsp + 8 + ((rip & 15) >= cfa ? 8 : 0); cfa: 1 to 15, the linker's choice */
	XP_CFI_DEREF,  /* exotic: see struct xp_cfi_deref, whose index cfa is */
	XP_CFI_SIGNAL, /* return from a signal handler: the caller's registers are in the ucontext_t at rsp */
	XP_CFI_END,    /* the outermost frame */
	XP_CFI_REG,    /* CFA = another register + an offset: XP_CFI_REG_CFA() is cfa */
	XP_CFI_CLONE,  /* CFA = rsp + 8 in the parent; in the child, where no code is at *rsp, the outermost frame */
	XP_CFI_RULES,
};

/* The number of the register, 0 to 15 but rsp and rbp, and of words. */
#define XP_CFI_REG_WORDS_MAX 4095
#define XP_CFI_REG_CFA(reg, words) ((uint16_t)((reg) << 12 | (words)))
#define XP_CFI_REG_OF(cfa) ((cfa) >> 12)
#define XP_CFI_REG_WORDS(cfa) ((cfa)&XP_CFI_REG_WORDS_MAX)

/* Of struct xp_cfi_row: the caller's rbp is in rbp. */
#define XP_CFI_RBP_SAME (-128)

/* From pc on up to the next row's. */
struct xp_cfi_row {
	uint32_t pc;  /* an offset in the file */
	uint16_t cfa; /* 0 for the rules that do not name it */
	int8_t rbp;   /* the caller's is at CFA + 8 * rbp, or XP_CFI_RBP_SAME; 0 for NONE, SIGNAL, END and CLONE */
	uint8_t rule; /* enum xp_cfi_rule */
};
_Static_assert(sizeof(struct xp_cfi_row) == 8, "rows are to be small");

enum xp_cfi_base {
	XP_CFI_BASE_CFA,
	XP_CFI_BASE_RSP,
	XP_CFI_BASE_RBP,
};

/*
 * CFA = *(base + offset) + add: where the stack was realigned. rbp_base XP_CFI_BASE_CFA: the row's rbp tells of the
 * caller's rbp; otherwise that is at rbp_base + rbp_offset and the row's rbp is 0.
 */
struct xp_cfi_deref {
	int32_t offset;
	int32_t add;
	int32_t rbp_offset;
	uint8_t base;	  /* XP_CFI_BASE_RSP, _RBP */
	uint8_t rbp_base; /* enum xp_cfi_base */
	uint16_t pad;
};
_Static_assert(sizeof(struct xp_cfi_deref) == 16, "part of the format");

/* What is known of a byte of code, and if nothing, why. */
enum xp_cfi_reason {
	XP_CFI_KNOWN,
	XP_CFI_NO_FDE,	       /* no entry covers it */
	XP_CFI_BAD_ENTRY,      /* libdw refuses the entry */
	XP_CFI_CFA_REGISTER,   /* CFA from a register that no rule has */
	XP_CFI_CFA_RANGE,      /* offset no multiple of 8, negative or too large */
	XP_CFI_CFA_EXPRESSION, /* CFA by an expression that is not among the rules */
	XP_CFI_RA_RULE,	       /* return address elsewhere than at CFA - 8 */
	XP_CFI_RBP_RULE,       /* caller's rbp not where a row can say */
	XP_CFI_REASONS,
};

struct xp_cfi_header {
	uint64_t magic;
	uint32_t row_count;		     /* at least 1; the last row is XP_CFI_NONE */
	uint32_t deref_count;		     /* at most 65536 */
	uint64_t build_ns;		     /* time that the making took */
	uint64_t code_bytes[XP_CFI_REASONS]; /* of the executable sections in the piece, by reason */
};
#define XP_CFI_MAGIC 0x6c62617469666378ull /* "xcfitabl" */

struct xp_cfi_table;

/*
 * Maps a memfd that is sealed against writing, growing and shrinking, and checks it, so that what is found in it later
 * needs no checks. fd stays the caller's. -EPERM: not sealed; -EBADMSG: malformed; -ENOMEM; those of fstat(2), mmap(2).
 */
int xp_cfi_table_open(struct xp_cfi_table **table, int fd);
void xp_cfi_table_free(struct xp_cfi_table *table);
/* All that it takes in memory. */
size_t xp_cfi_table_bytes(const struct xp_cfi_table *table);
const struct xp_cfi_header *xp_cfi_table_header(const struct xp_cfi_table *table);

/* The rule for the code at this offset. Never NULL: a row of rule XP_CFI_NONE where nothing is known. O(log n). */
const struct xp_cfi_row *xp_cfi_find(const struct xp_cfi_table *table, uint64_t file_offset);
/* Of a row of this table with rule XP_CFI_DEREF. */
const struct xp_cfi_deref *xp_cfi_deref(const struct xp_cfi_table *table, const struct xp_cfi_row *row);

#endif
