/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An x86-64 ELF file that nobody vouches for: headers through libelf, bytes by bounded copies, addresses to file
 * offsets through the executable PT_LOADs. The file is read with pread, never mapped: its owner may truncate it at any
 * moment, and a mapping would turn that into a SIGBUS.
 */
#ifndef XPROF_ELF_IMAGE_H
#define XPROF_ELF_IMAGE_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_ELF_SEGMENTS_MAX 64
#define XP_ELF_WINDOW_BYTES 4096

struct xp_elf_segment {
	uint64_t vaddr;
	uint64_t offset;
	uint64_t bytes; /* p_filesz: what is in the file */
};

struct xp_elf_image {
	Elf *elf;
	int fd;		       /* -1: memory */
	const uint8_t *memory; /* NULL: fd */
	uint64_t size;
	bool dynamic; /* ET_DYN */

	struct xp_elf_segment segments[XP_ELF_SEGMENTS_MAX]; /* the executable ones */
	size_t segment_count;

	char *why; /* the caller's; always terminated when why_size is not 0 */
	size_t why_size;

	/* What was read last of fd. */
	uint64_t window_offset;
	size_t window_bytes;
	uint8_t window[XP_ELF_WINDOW_BYTES];
};

/*
 * Both leave the sentence for an error in why. elf, or fd, must outlive the image. On success and on error the caller
 * calls xp_elf_image_close().
 * -ENOEXEC: not an executable or shared object for x86-64; -EINVAL: malformed; -ENOMEM; of fd also those of fstat.
 */
int xp_elf_image_memory(struct xp_elf_image *image, const void *elf, size_t size, char *why, size_t why_size);
int xp_elf_image_fd(struct xp_elf_image *image, int fd, char *why, size_t why_size);
void xp_elf_image_close(struct xp_elf_image *image);

/* Puts the sentence in why and returns error. */
int xp_elf_refuse(struct xp_elf_image *image, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Copies bytes of the file; false when they are not all there. */
bool xp_elf_image_read(struct xp_elf_image *image, void *to, uint64_t offset, size_t size);

/* The executable segment whose file part holds [vaddr, vaddr + bytes), NULL when none does. */
const struct xp_elf_segment *xp_elf_image_segment(const struct xp_elf_image *image, uint64_t vaddr, uint64_t bytes);

/* The first section of this name or, when name is NULL, of this type, and its header. NULL: there is none. */
Elf_Scn *xp_elf_image_section(struct xp_elf_image *image, const char *name, uint32_t type, GElf_Shdr *header);

/*
 * The name of a section, or its beginning where it is longer; names: the header of their table. In the time of a short
 * read, unlike elf_strptr(), which searches the whole table.
 */
bool xp_elf_image_section_name(struct xp_elf_image *image, const GElf_Shdr *names, const GElf_Shdr *header, char *to,
			       size_t size);

/* The first build id among the PT_NOTEs, at most size bytes of it. Returns its length, 0: none. */
size_t xp_elf_image_build_id(struct xp_elf_image *image, uint8_t *to, size_t size);

#endif
