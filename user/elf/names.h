/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the names of the code at an address of an ELF file, with libdw. The names of functions, inlined functions and
 * lines come from DWARF, the names of other functions from .symtab, .dynsym and .gnu_debugdata. libdw searches for
 * separate debug information (build ID, .gnu_debuglink, dwz, .dwo) next to the file, under /usr/lib/debug, and on the
 * servers of DEBUGINFOD_URLS.
 *
 * libdw trusts its input: a hostile file can make it crash or loop. So this code runs in a separate process
 * (questions.h).
 */
#ifndef XPROF_ELF_NAMES_H
#define XPROF_ELF_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* Maximum number of functions at one address. If more functions are inlined there, the innermost ones are omitted. */
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
	XP_NAMES_LINES,	    /* source lines of frames, too */
};

/* Why inlined calls, lines, and functions without a symbol have no names although the file has debug information. */
enum xp_names_lack {
	XP_NAMES_COMPLETE,
	/*
	 * libdw cannot read the debug information: it is compressed by zstd (libdw before 0.189), damaged, or too large
	 */
	XP_NAMES_UNREADABLE,
	/* libdw does not find the .dwo file of a unit: it is missing, or in a .dwp file (libdw before 0.191) */
	XP_NAMES_SPLIT,
	XP_NAMES_LACKS,
};

/*
 * Opens a file. The caller still owns fd. path: where the search for debug files starts. Returns 0, -EINVAL if libdw
 * cannot read the file, or -ENOMEM. The caller frees *names with xp_elf_names_free().
 */
int xp_elf_names_open(struct xp_elf_names **names, int fd, const char *path, enum xp_name_detail detail);
void xp_elf_names_free(struct xp_elf_names *names);

/*
 * Finds the functions at vaddr (as linked), the innermost first; the last one is not inlined. The strings are valid
 * until xp_elf_names_free(). Returns the number of functions, or 0 if no function is known.
 */
size_t xp_elf_names_at(struct xp_elf_names *names, uint64_t vaddr, struct xp_name_frame frames[XP_NAME_FRAMES_MAX]);

/* Returns why the addresses so far have fewer names than the debug information of the file contains. */
enum xp_names_lack xp_elf_names_lack(const struct xp_elf_names *names);

#endif
