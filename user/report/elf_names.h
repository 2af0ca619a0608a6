/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the code at an address of an ELF file is called: functions, those inlined there and their lines from DWARF,
 * other functions from .symtab, .dynsym and .gnu_debugdata, through libdw. Debug information in a file of its own
 * (build id, .gnu_debuglink, dwz, .dwo) is found as libdw finds it: beside the file, under /usr/lib/debug, from the
 * servers of DEBUGINFOD_URLS.
 *
 * libdw trusts what it reads: a hostile file can make it crash or loop. So this runs in a process of its own
 * (symbolize.h).
 */
#ifndef XPROF_ELF_NAMES_H
#define XPROF_ELF_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Functions at one address: deeper inlining is cut at its inner end. */
#define XP_NAME_FRAMES_MAX 64

struct xp_elf_names;

struct xp_name_frame {
	const char *symbol; /* as in the file (mangled); NULL: not known */
	const char *file;   /* the source's path; NULL: not known */
	uint32_t line;	    /* 0: not known */
};

enum xp_name_detail {
	XP_NAMES_SYMBOLS,   /* symbol tables only */
	XP_NAMES_FUNCTIONS, /* DWARF too */
	XP_NAMES_LINES,	    /* and frames' files and lines */
};

/*
 * fd stays the caller's. path: for the search of debug files. -EINVAL: libdw cannot read it; -ENOMEM.
 * The caller frees with xp_elf_names_free().
 */
int xp_elf_names_open(struct xp_elf_names **names, int fd, const char *path, enum xp_name_detail detail);
void xp_elf_names_free(struct xp_elf_names *names);

/*
 * The functions at vaddr (as linked), the innermost first, the one that is not inlined last. Texts live as long as
 * names. Returns their number; 0: nothing is known.
 */
size_t xp_elf_names_at(struct xp_elf_names *names, uint64_t vaddr, struct xp_name_frame frames[XP_NAME_FRAMES_MAX]);

#endif
