/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names of the code at an address of an ELF file. Functions, inlined functions and their lines come from DWARF,
 * other functions from .symtab, .dynsym and .gnu_debugdata, all through libdw. Separate debug information (build ID,
 * .gnu_debuglink, dwz, .dwo) is found as libdw finds it: next to the file, under /usr/lib/debug, or on the servers of
 * DEBUGINFOD_URLS.
 *
 * libdw trusts its input: a hostile file can make it crash or loop. So this code runs in a separate process
 * (questions.h).
 */
#ifndef XPROF_ELF_NAMES_H
#define XPROF_ELF_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* Functions at one address. Deeper inlining is cut at its inner end. */
#define XP_NAME_FRAMES_MAX 64

struct xp_elf_names;

struct xp_name_frame {
	const char *symbol; /* as in the file (mangled); NULL: unknown */
	const char *file;   /* path of the source file; NULL: unknown */
	uint32_t line;	    /* 0: unknown */
};

enum xp_name_detail {
	XP_NAMES_SYMBOLS,   /* symbol tables only */
	XP_NAMES_FUNCTIONS, /* DWARF, too */
	XP_NAMES_LINES,	    /* and the source lines of frames */
};

/* Why inlined calls, lines, and functions without a symbol have no names, although the file has debug information. */
enum xp_names_lack {
	XP_NAMES_COMPLETE,
	XP_NAMES_UNREADABLE, /* libdw reads none of it: compressed by zstd (libdw before 0.189), damaged, or too large
			      */
	XP_NAMES_SPLIT,	     /* libdw finds no .dwo file of a unit: it is missing, or in a .dwp (before 0.191) */
	XP_NAMES_LACKS,
};

/*
 * fd stays the caller's. path: where the search for debug files starts. Returns 0, -EINVAL if libdw cannot read the
 * file, or -ENOMEM. The caller frees *names with xp_elf_names_free().
 */
int xp_elf_names_open(struct xp_elf_names **names, int fd, const char *path, enum xp_name_detail detail);
void xp_elf_names_free(struct xp_elf_names *names);

/*
 * Finds the functions at vaddr (as linked), the innermost first; the last one is not inlined. The strings live as long
 * as names. Returns the number of functions, or 0 if nothing is known.
 */
size_t xp_elf_names_at(struct xp_elf_names *names, uint64_t vaddr, struct xp_name_frame frames[XP_NAME_FRAMES_MAX]);

/* Returns why the addresses so far have fewer names than the debug information of the file contains. */
enum xp_names_lack xp_elf_names_lack(const struct xp_elf_names *names);

#endif
