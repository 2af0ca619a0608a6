/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf/copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "elf/file.h"
#include "base/file_copy.h"
#include "base/interval_map.h"

/* So much of each is looked at. */
#define SECTION_NAME_BYTES 64

/* What is loaded with the program and yet is needed for names. Go's table of functions, also ".data.rel.ro.gopclntab".
 */
static bool names_functions(const char *section)
{
	return strstr(section, ".gopclntab") || strstr(section, ".gosymtab");
}

/* What a program executes and reads; tables of symbols and notes are of other types. */
static bool is_contents(const GElf_Shdr *header, const char *name)
{
	return header->sh_type == SHT_PROGBITS && header->sh_flags & SHF_ALLOC && !names_functions(name);
}

static int omit_section(struct xp_spans *omitted, struct xp_elf_image *image, const GElf_Shdr *names,
			const GElf_Shdr *header)
{
	char name[SECTION_NAME_BYTES];

	if (!xp_elf_image_section_name(image, names, header, name, sizeof(name)) || !is_contents(header, name) ||
	    header->sh_offset > image->size || header->sh_size > image->size - header->sh_offset)
		return 0;
	return xp_spans_add(omitted,
			    (struct xp_span){ .start = header->sh_offset, .end = header->sh_offset + header->sh_size });
}

static int omit_contents(struct xp_spans *omitted, struct xp_elf_image *image)
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
	xp_spans_sort(omitted);
	return err;
}

static int find_contents(struct xp_spans *omitted, int fd)
{
	struct xp_elf_image *image = malloc(sizeof(*image));
	char why[128];
	int err;

	if (!image)
		return -ENOMEM;
	err = xp_elf_image_fd(image, fd, why, sizeof(why));
	if (!err)
		err = omit_contents(omitted, image);
	else if (err != -ENOMEM) /* what it is, its readers must find out */
		err = 0;
	xp_elf_image_close(image);
	free(image);
	return err;
}

int xp_elf_copy(int from_fd, int to_fd, uint64_t *bytes)
{
	struct xp_spans omitted = { 0 };
	struct stat st;
	int err = 0;

	if (fstat(from_fd, &st))
		return -errno;
	if ((uint64_t)st.st_size > XP_ELF_COPY_WHOLE_BYTES)
		err = find_contents(&omitted, from_fd);
	if (!err)
		err = xp_file_copy(from_fd, to_fd, &omitted, bytes);
	xp_spans_free(&omitted);
	return err;
}
