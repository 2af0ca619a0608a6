/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf/copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_copy.h"
#include "base/interval_map.h"
#include "base/util.h"
#include "elf/file.h"

/* Only this much of a section name is compared. */
#define SECTION_NAME_BYTES 64

/* Loaded sections that are needed for names: Go's function table, also called ".data.rel.ro.gopclntab". */
static bool names_functions(const char *section)
{
	return strstr(section, ".gopclntab") || strstr(section, ".gosymtab");
}

/* The code and data of a program. Symbol tables and notes have other types. */
static bool is_contents(const GElf_Shdr *header, const char *name)
{
	return header->sh_type == SHT_PROGBITS && header->sh_flags & SHF_ALLOC && !names_functions(name);
}

static int omit_section(struct xp_interval_map *omitted, struct xp_elf_file *image, const GElf_Shdr *names,
			const GElf_Shdr *header)
{
	char name[SECTION_NAME_BYTES];

	if (!xp_elf_file_section_name(image, names, header, name, sizeof(name)) || !is_contents(header, name) ||
	    header->sh_offset > image->size || header->sh_size > image->size - header->sh_offset)
		return 0;
	return xp_interval_map_add(
	    omitted, (struct xp_interval){ .start = header->sh_offset, .end = header->sh_offset + header->sh_size });
}

static int omit_contents(struct xp_interval_map *omitted, struct xp_elf_file *image)
{
	Elf_Scn *section = NULL;
	GElf_Shdr names, header;
	size_t index;
	int err = 0;

	if (elf_getshdrstrndx(image->elf, &index) || !gelf_getshdr(elf_getscn(image->elf, index), &names))
		return 0;
	while (!err && (section = elf_nextscn(image->elf, section)))
		if (gelf_getshdr(section, &header))
			err = omit_section(omitted, image, &names, &header);
	xp_interval_map_sort(omitted);
	return err;
}

static int find_contents(struct xp_interval_map *omitted, int fd)
{
	struct xp_elf_file *image = malloc(sizeof(*image));
	char why[128];
	int err;

	if (!image)
		return -ENOMEM;
	err = xp_elf_file_fd(image, fd, why, sizeof(why));
	if (!err)
		err = omit_contents(omitted, image);
	else if (err != -ENOMEM) /* users of the copy find out what it is */
		err = 0;
	xp_elf_file_close(image);
	free(image);
	return err;
}

bool xp_elf_start_is_ambiguous(const struct xp_elf_file *image)
{
	const struct xp_elf_segment *first = image->segments;

	return image->segment_count && first->align && first->vaddr % first->align;
}

/* Sets p_align of the first executable segment to 1. Returns 0 or an error of write(2). */
static int unalign_text(int from_fd, int to_fd)
{
	Elf64_Phdr segment;
	Elf64_Ehdr header;

	if (pread(from_fd, &header, sizeof(header), 0) != sizeof(header) || header.e_phentsize != sizeof(segment) ||
	    header.e_phoff > INT64_MAX / 2)
		return 0;
	for (unsigned int i = 0; i < header.e_phnum; i++) {
		off_t at = (off_t)(header.e_phoff + i * sizeof(segment));

		if (pread(from_fd, &segment, sizeof(segment), at) != sizeof(segment))
			return 0;
		if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X))
			continue;
		segment.p_align = 1;
		return xp_pwrite_all(to_fd, &segment, sizeof(segment), at);
	}
	return 0;
}

/* The copy of a file that is not a valid ELF file stays as it is: those who read it find out. */
static int settle_start(int from_fd, int to_fd)
{
	struct xp_elf_file *image = malloc(sizeof(*image));
	bool is_ambiguous;
	char why[128];

	if (!image)
		return -ENOMEM;
	is_ambiguous = !xp_elf_file_fd(image, from_fd, why, sizeof(why)) && xp_elf_start_is_ambiguous(image);
	xp_elf_file_close(image);
	free(image);
	return is_ambiguous ? unalign_text(from_fd, to_fd) : 0;
}

int xp_elf_copy(int from_fd, int to_fd, uint64_t *bytes)
{
	struct xp_interval_map omitted = { 0 };
	struct stat st;
	int err = 0;

	if (fstat(from_fd, &st))
		return -errno;
	if ((uint64_t)st.st_size > XP_ELF_COPY_WHOLE_BYTES)
		err = find_contents(&omitted, from_fd);
	if (!err)
		err = xp_file_copy(from_fd, to_fd, &omitted, bytes);
	if (!err)
		err = settle_start(from_fd, to_fd);
	xp_interval_map_free(&omitted);
	return err;
}
