/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/link_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/elf_file.h"

bool xp_link_map_is_linker(const char *path)
{
	const char *name = basename(path);

	return !strncmp(name, "ld-", 3) || !strncmp(name, "ld.so", 5) || !strncmp(name, "ld64.so", 7) ||
	       strstr(name, "musl");
}

static int find_symbol(struct xp_elf_file *image, Elf_Scn *section, const GElf_Shdr *header, uint64_t *vaddr)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t count = header->sh_entsize ? header->sh_size / header->sh_entsize : 0;

	for (size_t i = 0; data && i < count; i++) {
		GElf_Sym symbol;
		const char *name;

		if (!gelf_getsym(data, i, &symbol))
			break;
		name = elf_strptr(image->elf, header->sh_link, symbol.st_name);
		if (name && symbol.st_shndx != SHN_UNDEF && !strcmp(name, "_dl_debug_state")) {
			*vaddr = symbol.st_value;
			return 0;
		}
	}
	return -ENOENT;
}

int xp_link_map_offset(int fd, uint64_t *offset)
{
	struct xp_elf_file *image = calloc(1, sizeof(*image));
	const struct xp_elf_segment *segment;
	GElf_Shdr header;
	Elf_Scn *section;
	uint64_t vaddr;
	int err;

	if (!image)
		return -ENOMEM;
	err = xp_elf_file_fd(image, fd);
	if (err)
		goto out;
	section = xp_elf_file_section(image, NULL, SHT_DYNSYM, &header);
	err = section ? find_symbol(image, section, &header, &vaddr) : -ENOENT;
	if (err)
		goto out;
	segment = xp_elf_file_segment(image, vaddr, 1);
	if (segment)
		*offset = vaddr - segment->vaddr + segment->offset;
	else
		err = -EINVAL;
out:
	xp_elf_file_close(image);
	free(image);
	return err;
}
