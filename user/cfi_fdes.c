// SPDX-License-Identifier: BSD-2-Clause
#include "cfi_fdes.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

/* Encodings of pointers, which dwarf.h does not have: the low four bits say how, the next three what is added. */
enum {
	PE_ABSPTR = 0x00,
	PE_UDATA2 = 0x02,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_SDATA2 = 0x0a,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_FORMAT = 0x0f,
	PE_PCREL = 0x10,
	PE_OMIT = 0xff,
};

struct section {
	Elf_Data *data;
	const unsigned char *ident;
	uint64_t vaddr;
	bool is_debug;
	/* Of the entries' common part (CIE) that was looked at last. */
	Dwarf_Off cie;
	uint8_t encoding;
};

static size_t encoded_bytes(uint8_t encoding)
{
	switch (encoding & PE_FORMAT) {
	case PE_UDATA2:
	case PE_SDATA2:
		return 2;
	case PE_UDATA4:
	case PE_SDATA4:
		return 4;
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		return 8;
	}
	return 0;
}

static uint64_t get_encoded(const uint8_t *from, uint8_t encoding)
{
	uint64_t value = 0;

	memcpy(&value, from, encoded_bytes(encoding));
	switch (encoding & PE_FORMAT) {
	case PE_SDATA2:
		return (uint64_t)(int64_t)(int16_t)value;
	case PE_SDATA4:
		return (uint64_t)(int64_t)(int32_t)value;
	}
	return value;
}

/* The encoding of addresses in the entries of a CIE; PE_OMIT: not understood. */
static uint8_t encoding_of(const Dwarf_CIE *cie)
{
	const uint8_t *data = cie->augmentation_data, *end = data + cie->augmentation_data_size;
	const char *letter = cie->augmentation;

	if (!*letter)
		return PE_ABSPTR;
	if (*letter != 'z')
		return PE_OMIT;
	while (*++letter) {
		if (*letter == 'S' || *letter == 'B')
			continue;
		if (!data || data >= end)
			return PE_OMIT;
		if (*letter == 'R')
			return *data;
		if (*letter == 'P')
			data += encoded_bytes(*data);
		else if (*letter != 'L')
			return PE_OMIT;
		data++;
	}
	return PE_ABSPTR;
}

static void look_at_cie(struct section *section, Dwarf_Off offset)
{
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;

	if (section->cie == offset)
		return;
	section->cie = offset;
	section->encoding = PE_OMIT;
	if (dwarf_next_cfi(section->ident, section->data, !section->is_debug, offset, &next, &entry) == 0 &&
	    dwarf_cfi_cie_p(&entry))
		section->encoding = encoding_of(&entry.cie);
}

static bool decode(struct section *section, const Dwarf_FDE *from, struct xp_cfi_fde *fde)
{
	uint64_t place = section->vaddr + (uint64_t)(from->start - (const uint8_t *)section->data->d_buf), size, end;
	size_t bytes;

	look_at_cie(section, from->CIE_pointer);
	bytes = encoded_bytes(section->encoding);
	if (!bytes || (section->encoding & ~PE_FORMAT & ~PE_PCREL) || (size_t)(from->end - from->start) < bytes * 2)
		return false;
	fde->vaddr = get_encoded(from->start, section->encoding);
	if (section->encoding & PE_PCREL)
		fde->vaddr += place;
	size = get_encoded(from->start + bytes, section->encoding & PE_FORMAT);
	if (bytes == 4)
		size = (uint32_t)size; /* a size has no sign, whatever its encoding says */
	if (!size || size > UINT32_MAX || __builtin_add_overflow(fde->vaddr, size, &end))
		return false;
	fde->bytes = (uint32_t)size;
	fde->is_debug = section->is_debug;
	return true;
}

static int add(struct xp_cfi_fdes *fdes, const struct xp_cfi_fde *fde)
{
	if (fdes->count == fdes->room) {
		size_t room = XP_MAX(fdes->room * 2, (size_t)256);
		struct xp_cfi_fde *all = reallocarray(fdes->all, room, sizeof(*all));

		if (!all)
			return -ENOMEM;
		fdes->all = all;
		fdes->room = room;
	}
	fdes->all[fdes->count++] = *fde;
	return 0;
}

int xp_cfi_fdes_read(struct xp_cfi_fdes *fdes, Elf *elf, Elf_Data *data, uint64_t vaddr, bool is_debug)
{
	struct section section = {
		.data = data,
		.ident = (const unsigned char *)elf_getident(elf, NULL),
		.vaddr = vaddr,
		.is_debug = is_debug,
		.cie = (Dwarf_Off)-1,
	};
	Dwarf_Off offset = 0, next;
	int err = 0;

	while (!err && offset < data->d_size) {
		Dwarf_CFI_Entry entry;
		struct xp_cfi_fde fde;
		int status;

		next = offset;
		status = dwarf_next_cfi(section.ident, data, !is_debug, offset, &next, &entry);
		if (status > 0 || next <= offset)
			break;
		if (!status && !dwarf_cfi_cie_p(&entry) && decode(&section, &entry.fde, &fde))
			err = add(fdes, &fde);
		offset = next;
	}
	return err;
}

static int by_vaddr(const void *a, const void *b)
{
	const struct xp_cfi_fde *left = a, *right = b;

	if (left->is_debug != right->is_debug)
		return left->is_debug ? 1 : -1;
	return left->vaddr < right->vaddr ? -1 : left->vaddr > right->vaddr;
}

static int by_vaddr_alone(const void *a, const void *b)
{
	const struct xp_cfi_fde *left = a, *right = b;

	return left->vaddr < right->vaddr ? -1 : left->vaddr > right->vaddr;
}

void xp_cfi_fdes_sort(struct xp_cfi_fdes *fdes)
{
	struct xp_cfi_fde *all = fdes->all;
	size_t eh_count = 0, kept, eh = 0;

	if (!fdes->count)
		return;
	qsort(all, fdes->count, sizeof(*all), by_vaddr);
	while (eh_count < fdes->count && !all[eh_count].is_debug)
		eh_count++;
	kept = eh_count;
	for (size_t i = eh_count; i < fdes->count; i++) {
		while (eh < eh_count && all[eh].vaddr + all[eh].bytes <= all[i].vaddr)
			eh++;
		if (eh == eh_count || all[i].vaddr + all[i].bytes <= all[eh].vaddr)
			all[kept++] = all[i];
	}
	fdes->count = kept;
	if (eh_count && kept > eh_count)
		qsort(all, kept, sizeof(*all), by_vaddr_alone);
}

void xp_cfi_fdes_free(struct xp_cfi_fdes *fdes)
{
	free(fdes->all);
}
