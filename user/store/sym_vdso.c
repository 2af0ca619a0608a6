/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/sym_vdso.h"

#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "elf/elf_file.h"
#include "elf/symbol_file.h"
#include "target/vdso.h"

static bool is_function(const GElf_Sym *symbol, uint64_t bytes)
{
	return GELF_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF && symbol->st_value < bytes;
}

/* Sorts by address; of several names for one function, __vdso_time comes before time. */
static int by_address(const void *a, const void *b)
{
	const struct xp_sym *left = a, *right = b;

	return xp_compare(left->address, right->address) ?: strcmp(left->name, right->name);
}

static size_t sort_unique(struct xp_sym *syms, size_t count)
{
	size_t kept = 0;

	if (count)
		qsort(syms, count, sizeof(*syms), by_address);
	for (size_t i = 0; i < count; i++)
		if (!kept || syms[i].address != syms[kept - 1].address)
			syms[kept++] = syms[i];
	return kept;
}

static int read_symbols(struct xp_elf_file *image, struct xp_sym **result, size_t *count)
{
	GElf_Shdr header;
	Elf_Scn *section = xp_elf_file_section(image, ".dynsym", 0, &header);
	Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
	size_t total = data && header.sh_entsize ? header.sh_size / header.sh_entsize : 0;
	struct xp_sym *syms = calloc(total + 1, sizeof(*syms));

	*count = 0;
	if (!syms)
		return -ENOMEM;
	for (size_t i = 0; i < total; i++) {
		GElf_Sym symbol;
		const char *name;

		if (!gelf_getsym(data, i, &symbol) || !is_function(&symbol, image->size))
			continue;
		name = elf_strptr(image->elf, header.sh_link, symbol.st_name);
		if (name)
			syms[(*count)++] = (struct xp_sym){ symbol.st_value, symbol.st_size, name };
	}
	*count = sort_unique(syms, *count);
	*result = syms;
	return 0;
}

static int write_names(int fd, const void *vdso, size_t bytes)
{
	struct xp_sym *syms = NULL;
	struct xp_elf_file image;
	size_t count;
	int err = xp_elf_file_memory(&image, vdso, bytes);

	if (!err)
		err = read_symbols(&image, &syms, &count);
	if (!err)
		err = xp_symbol_file_write(fd, 0, bytes, syms, count);
	free(syms);
	xp_elf_file_close(&image);
	return err;
}

int xp_sym_vdso_write(int fd)
{
	const void *vdso;
	size_t bytes;
	int err = xp_vdso_find(&vdso, &bytes);

	return err ? err : write_names(fd, vdso, bytes);
}
