/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An untrusted x86-64 ELF file: libelf reads its headers, bounded copies read its bytes, and the executable PT_LOADs
 * map addresses to file offsets. The file is read with pread(2) and never mapped: its owner may truncate it at any
 * moment, which would turn an access to a mapping into a SIGBUS.
 */
#ifndef XPROF_ELF_ELF_FILE_H
#define XPROF_ELF_ELF_FILE_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_ELF_SEGMENTS_MAX 64
#define XP_ELF_WINDOW_BYTES 4096

struct xp_elf_segment {
	uint64_t vaddr;
	uint64_t offset;
	uint64_t bytes; /* p_filesz: the bytes in the file */
	uint64_t align; /* p_align */
};

struct xp_elf_file {
	Elf *elf;
	int fd;		       /* -1: the file is in memory */
	const uint8_t *memory; /* NULL: the file is in fd */
	uint64_t size;
	bool dynamic; /* ET_DYN */

	struct xp_elf_segment segments[XP_ELF_SEGMENTS_MAX]; /* the executable ones */
	size_t segment_count;

	/* The last window read from fd. */
	uint64_t window_offset;
	size_t window_bytes;
	uint8_t window[XP_ELF_WINDOW_BYTES];
};

/*
 * Open an ELF file in memory or in fd. elf, or fd, must outlive the image. The caller calls xp_elf_file_close() on
 * success and on error. Return 0 or -errno, with a sentence (why.h): -ENOEXEC if it is not an executable
 * or shared object for x86-64, -EINVAL if it is malformed, -ENOMEM; for fd, also an error of fstat(2).
 */
int xp_elf_file_memory(struct xp_elf_file *image, const void *elf, size_t size);
int xp_elf_file_fd(struct xp_elf_file *image, int fd);
/* Like xp_elf_file_fd(), but also accepts 32-bit x86 files. For files whose code is only named. */
int xp_elf_file_named(struct xp_elf_file *image, int fd);
void xp_elf_file_close(struct xp_elf_file *image);

/* Copies bytes of the file. Returns false if the file has fewer bytes. */
bool xp_elf_file_read(struct xp_elf_file *image, void *to, uint64_t offset, size_t size);

/* Returns the executable segment whose file part contains [vaddr, vaddr + bytes), or NULL. */
const struct xp_elf_segment *xp_elf_file_segment(const struct xp_elf_file *image, uint64_t vaddr, uint64_t bytes);

/*
 * Finds the first section with this name or, if name is NULL, with this type. Sets *header. Returns NULL if there is
 * none.
 */
Elf_Scn *xp_elf_file_section(struct xp_elf_file *image, const char *name, uint32_t type, GElf_Shdr *header);

/* Returns whether Go's linker made the file: it then has the tables of Go's runtime, which are never stripped. */
bool xp_elf_file_is_go(struct xp_elf_file *image);

/*
 * Gets the headers of the first symbol table with this type and of its strings. Returns false if there is none, or if
 * they are incomplete or 32-bit.
 */
bool xp_elf_file_symbols(struct xp_elf_file *image, uint32_t type, GElf_Shdr *symbols, GElf_Shdr *strings);

/*
 * Gets the name of a section, truncated to size. names is the header of the string table. Reads only the name, while
 * elf_strptr() searches the whole table.
 */
bool xp_elf_file_section_name(struct xp_elf_file *image, const GElf_Shdr *names, const GElf_Shdr *header, char *to,
			      size_t size);

/* Gets the first build ID in the PT_NOTEs, truncated to size bytes. Returns its length, or 0 if there is none. */
size_t xp_elf_file_build_id(struct xp_elf_file *image, uint8_t *to, size_t size);

#endif
