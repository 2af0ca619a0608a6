/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How to find the caller's frame from any instruction of an ELF file: the unwind tables (.eh_frame, .debug_frame) in a
 * compact form, with eight bytes for each range of code that has one rule. The key is the file offset of the code,
 * because a mapping gives the offset without the program headers. Code beyond the first 4 GiB of a file has no rules.
 *
 * A table covers a piece of a file, or the whole file. A separate process reads the untrusted files (cfi_tables.h) and
 * returns each table as a sealed memfd: struct xp_cfi_header, the rows in the order of pc, the exotic rows. The format
 * has no version, because both processes run the same xprof.
 *
 * Registers are those of the System V ABI for x86-64, table 3.36. The canonical frame address (CFA) is DWARF's (section
 * 6.4): the value of rsp before the call. In all rules, the return address is at CFA - 8 and the caller's rsp is the
 * CFA.
 */
#ifndef XPROF_UNWIND_CFI_TABLE_H
#define XPROF_UNWIND_CFI_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* Register numbers. */
enum { XP_CFI_REG_RBX = 3, XP_CFI_REG_RBP = 6, XP_CFI_REG_RSP = 7, XP_CFI_REG_R12 = 12, XP_CFI_REG_RA = 16 };

/* Maximum: one row per 8 bytes of a piece's code (cfi_tables.h). Compilers need one per 30 to 80 bytes. */
#define XP_CFI_ROWS_MAX (1u << 19)

enum xp_cfi_rule {
	XP_CFI_NONE,   /* no rule is known */
	XP_CFI_RSP,    /* CFA = rsp + 8 * cfa */
	XP_CFI_RBP,    /* CFA = rbp + 8 * cfa */
	XP_CFI_PLT,    /* CFA = rsp + 8 + ((rip & 15) >= cfa ? 8 : 0); cfa: 1 to 15, the linker's choice */
	XP_CFI_DEREF,  /* exotic: cfa is the index of a struct xp_cfi_deref */
	XP_CFI_SIGNAL, /* return from a signal handler: the caller's registers are in the ucontext_t at rsp */
	XP_CFI_END,    /* the outermost frame */
	XP_CFI_REG,    /* CFA = another register + an offset: cfa is XP_CFI_REG_CFA() */
	XP_CFI_CLONE,  /* parent: CFA = rsp + 8; child, where *rsp is no code address: the outermost frame */
	XP_CFI_SWITCH, /* the caller is on another stack */
	XP_CFI_RULES,
};

/* The cfa of XP_CFI_REG: the number of the register (0 to 15 except rsp and rbp), and the offset in words. */
#define XP_CFI_REG_WORDS_MAX 4095
#define XP_CFI_REG_CFA(reg, words) ((uint16_t)((reg) << 12 | (words)))
#define XP_CFI_REG_OF(cfa) ((cfa) >> 12)
#define XP_CFI_REG_WORDS(cfa) ((cfa)&XP_CFI_REG_WORDS_MAX)

/* Value of rbp in struct xp_cfi_row: the caller's rbp is still in rbp. */
#define XP_CFI_RBP_SAME (-128)

/* A row is valid from its pc to the pc of the next row. */
struct xp_cfi_row {
	uint32_t pc;  /* offset in the file */
	uint16_t cfa; /* 0 for rules that do not use it */
	int8_t rbp;   /* the caller's rbp is at CFA + 8 * rbp, or XP_CFI_RBP_SAME; 0 for NONE, SIGNAL, END, CLONE and
			 SWITCH */
	uint8_t rule; /* enum xp_cfi_rule */
};
_Static_assert(sizeof(struct xp_cfi_row) == 8, "rows are to be small");

enum xp_cfi_base {
	XP_CFI_BASE_CFA,
	XP_CFI_BASE_RSP,
	XP_CFI_BASE_RBP,
};

/*
 * CFA = *(base + offset) + add: for code that has realigned the stack. If rbp_base is XP_CFI_BASE_CFA, the rbp of the
 * row describes the caller's rbp. Otherwise the caller's rbp is at rbp_base + rbp_offset, and the rbp of the row is 0.
 */
struct xp_cfi_deref {
	int32_t offset;
	int32_t add;
	int32_t rbp_offset;
	uint8_t base;	  /* XP_CFI_BASE_RSP or XP_CFI_BASE_RBP */
	uint8_t rbp_base; /* enum xp_cfi_base */
	uint16_t pad;
};
_Static_assert(sizeof(struct xp_cfi_deref) == 16, "part of the format");

/* The rule for the code at one address. */
struct xp_cfi_found {
	struct xp_cfi_row row;
	struct xp_cfi_deref deref; /* if the row's rule is XP_CFI_DEREF */
};

/* Why a byte of code has no rule. XP_CFI_KNOWN: the byte has a rule. */
enum xp_cfi_reason {
	XP_CFI_KNOWN,
	XP_CFI_NO_FDE,	       /* no entry covers it */
	XP_CFI_BAD_ENTRY,      /* the entry is malformed */
	XP_CFI_CFA_REGISTER,   /* CFA from a register that rules do not support */
	XP_CFI_CFA_RANGE,      /* CFA offset is not a multiple of 8, is negative or is too large */
	XP_CFI_CFA_EXPRESSION, /* CFA by an unsupported expression */
	XP_CFI_RA_RULE,	       /* return address is not at CFA - 8 */
	XP_CFI_RBP_RULE,       /* a row cannot describe where the caller's rbp is */
	XP_CFI_REASONS,
};

struct xp_cfi_header {
	uint64_t magic;
	uint32_t row_count;   /* at least 1; the last row is XP_CFI_NONE */
	uint32_t deref_count; /* at most 65536 */
	uint32_t is_wide;     /* 1: the table is that of the wide range of struct xp_cfi_range */
	uint32_t pad;
	uint64_t build_ns;		     /* time it took to build the table */
	uint64_t code_bytes[XP_CFI_REASONS]; /* bytes of the piece's executable sections, by reason */
};
#define XP_CFI_MAGIC 0x6c62617469666378ull /* "xcfitabl" */

struct xp_cfi_table;

/*
 * Maps and checks a memfd that is sealed against writing, growing and shrinking, so that later lookups need no checks.
 * The caller keeps fd. Returns 0 or -errno: -EPERM if it is not sealed, -EBADMSG if it is malformed, -ENOMEM, or an
 * error of fstat(2) or mmap(2).
 */
int xp_cfi_table_open(struct xp_cfi_table **table, int fd);
void xp_cfi_table_free(struct xp_cfi_table *table);
/* Returns the memory of the table, including that of the kernel. */
size_t xp_cfi_table_bytes(const struct xp_cfi_table *table);
const struct xp_cfi_header *xp_cfi_table_header(const struct xp_cfi_table *table);

/*
 * Finds the row for the code at this offset. If no rule is known, returns a row with the rule XP_CFI_NONE, never NULL.
 * O(log n).
 */
const struct xp_cfi_row *xp_cfi_find(const struct xp_cfi_table *table, uint64_t file_offset);
/* row: a row of this table with rule XP_CFI_DEREF. */
const struct xp_cfi_deref *xp_cfi_deref(const struct xp_cfi_table *table, const struct xp_cfi_row *row);

#endif
