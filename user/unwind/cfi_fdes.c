// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_fdes.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"
#include "elf/dwarf_cursor.h"

#define PE_FORMAT 0x0f /* format of a pointer encoding; the next three bits are the base that is added */

/* The state of reading a section. */
struct reader {
	struct xp_cfi_fdes *fdes;
	const struct xp_cfi_section *from;
	const unsigned char *ident;
	/* The last CIE. */
	Dwarf_Off cie;
	uint8_t encoding;
	bool has_data; /* entries have augmentation data */
};

/* Returns the encoding of addresses in the entries of a CIE; DW_EH_PE_omit if it is not supported. */
static uint8_t encoding_of(const Dwarf_CIE *cie)
{
	const uint8_t *data = cie->augmentation_data, *end = data + cie->augmentation_data_size;
	const char *letter = cie->augmentation;

	if (!*letter)
		return DW_EH_PE_absptr;
	if (*letter != 'z')
		return DW_EH_PE_omit;
	while (*++letter) {
		if (*letter == 'S' || *letter == 'B')
			continue;
		if (!data || data >= end)
			return DW_EH_PE_omit;
		if (*letter == 'R')
			return *data;
		if (*letter == 'P')
			data += xp_dwarf_pointer_bytes(*data);
		else if (*letter != 'L')
			return DW_EH_PE_omit;
		data++;
	}
	return DW_EH_PE_absptr;
}

static int look_at_cie(struct reader *reader, Dwarf_Off offset)
{
	struct xp_cfi_fdes *fdes = reader->fdes;
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;

	if (reader->cie == offset)
		return 0;
	if (XP_ARRAY_RESERVE(fdes->commons, fdes->common_room, fdes->common_count + 1))
		return -ENOMEM;
	reader->cie = offset;
	reader->encoding = DW_EH_PE_omit;
	if (dwarf_next_cfi(reader->ident, reader->from->data, !reader->from->is_debug, offset, &next, &entry) ||
	    !dwarf_cfi_cie_p(&entry))
		return 0;
	reader->encoding = encoding_of(&entry.cie);
	reader->has_data = *entry.cie.augmentation == 'z';
	xp_cfi_common_read(&fdes->commons[fdes->common_count++], &entry.cie);
	return 0;
}

/* Finds the program, which follows the addresses. */
static bool find_program(const struct reader *reader, struct xp_dwarf_cursor *at, struct xp_cfi_fde *fde)
{
	if (reader->has_data)
		xp_dwarf_skip(at, xp_dwarf_uleb(at));
	if (at->bad || at->end - at->at > UINT32_MAX)
		return false;
	fde->program = at->at;
	fde->program_bytes = (uint32_t)(at->end - at->at);
	return true;
}

static bool decode(const struct reader *reader, const Dwarf_FDE *from, struct xp_cfi_fde *fde)
{
	uint64_t place = reader->from->vaddr + (uint64_t)(from->start - (const uint8_t *)reader->from->data->d_buf);
	struct xp_dwarf_cursor at = { from->start, from->end, false };
	uint64_t size, end;

	if (reader->encoding & ~PE_FORMAT & ~DW_EH_PE_pcrel)
		return false;
	fde->vaddr = xp_dwarf_pointer(&at, reader->encoding);
	if (reader->encoding & DW_EH_PE_pcrel)
		fde->vaddr += place;
	size = xp_dwarf_pointer(&at, reader->encoding);
	if (xp_dwarf_pointer_bytes(reader->encoding) == 4)
		size = (uint32_t)size; /* a size is unsigned, even if its encoding is signed */
	if (at.bad || !size || size > UINT32_MAX || __builtin_add_overflow(fde->vaddr, size, &end))
		return false;
	fde->bytes = (uint32_t)size;
	fde->is_debug = reader->from->is_debug;
	fde->common = (uint32_t)reader->fdes->common_count - 1;
	return find_program(reader, &at, fde);
}

static int add(struct reader *reader, const Dwarf_FDE *from)
{
	struct xp_cfi_fdes *fdes = reader->fdes;
	struct xp_cfi_fde fde;
	int err = look_at_cie(reader, from->CIE_pointer);

	if (err || !decode(reader, from, &fde) || fde.vaddr >= fdes->end || fde.vaddr + fde.bytes <= fdes->start)
		return err;
	if (XP_ARRAY_RESERVE(fdes->all, fdes->room, fdes->count + 1))
		return -ENOMEM;
	fdes->all[fdes->count++] = fde;
	return 0;
}

static struct reader reader_of(struct xp_cfi_fdes *fdes, const struct xp_cfi_section *from)
{
	return (struct reader){
		.fdes = fdes,
		.from = from,
		.ident = (const unsigned char *)elf_getident(from->elf, NULL),
		.cie = (Dwarf_Off)-1,
	};
}

int xp_cfi_fdes_read(struct xp_cfi_fdes *fdes, const struct xp_cfi_section *from)
{
	struct reader reader = reader_of(fdes, from);
	Dwarf_Off offset = 0, next;
	int err = 0;

	while (!err && offset < from->data->d_size) {
		Dwarf_CFI_Entry entry;
		int status;

		next = offset;
		status = dwarf_next_cfi(reader.ident, from->data, !from->is_debug, offset, &next, &entry);
		if (status > 0 || next <= offset)
			break;
		if (!status && !dwarf_cfi_cie_p(&entry))
			err = add(&reader, &entry.fde);
		offset = next;
	}
	return err;
}

/* ---- the index (.eh_frame_hdr) ---- */

/* Both fields are relative to the index. */
struct index_entry {
	int32_t code;
	int32_t fde;
};

struct index_header {
	uint8_t version;
	uint8_t frame_encoding;
	uint8_t count_encoding;
	uint8_t table_encoding;
	int32_t frame;
	uint32_t count;
};

/* Copies an entry, because a hostile file may not align its entries. */
static struct index_entry entry_at(const uint8_t *entries, size_t i)
{
	struct index_entry entry;

	memcpy(&entry, entries + i * sizeof(entry), sizeof(entry));
	return entry;
}

/* Returns the first entry that may contain code at or above vaddr. */
static size_t first_indexed(const uint8_t *entries, size_t count, uint64_t base, uint64_t vaddr)
{
	size_t low = XP_FIND_FIRST(count, i, base + (uint64_t)(int64_t)entry_at(entries, i).code <= vaddr);

	return low ? low - 1 : 0;
}

int xp_cfi_fdes_read_indexed(struct xp_cfi_fdes *fdes, const struct xp_cfi_section *from,
			     const struct xp_cfi_section *index)
{
	const uint8_t *entries;
	struct reader reader = reader_of(fdes, from);
	size_t bytes = index->data->d_size, i;
	struct index_header header;
	int err = 0;

	if (bytes < sizeof(header))
		return 1;
	memcpy(&header, index->data->d_buf, sizeof(header));
	if (header.version != 1 || header.frame_encoding != (DW_EH_PE_pcrel | DW_EH_PE_sdata4) ||
	    header.count_encoding != DW_EH_PE_udata4 || header.table_encoding != (DW_EH_PE_datarel | DW_EH_PE_sdata4) ||
	    !header.count || header.count > (bytes - sizeof(header)) / sizeof(struct index_entry))
		return 1;
	entries = (const uint8_t *)index->data->d_buf + sizeof(header);
	i = first_indexed(entries, header.count, index->vaddr, fdes->start);
	for (; !err && i < header.count; i++) {
		struct index_entry at = entry_at(entries, i);
		uint64_t offset = index->vaddr + (uint64_t)(int64_t)at.fde - from->vaddr;
		Dwarf_CFI_Entry entry;
		Dwarf_Off next;

		if (index->vaddr + (uint64_t)(int64_t)at.code >= fdes->end)
			break;
		if (offset < from->data->d_size &&
		    !dwarf_next_cfi(reader.ident, from->data, true, offset, &next, &entry) && !dwarf_cfi_cie_p(&entry))
			err = add(&reader, &entry.fde);
	}
	return err;
}

/* ---- the order of entries ---- */

static int by_vaddr(const void *a, const void *b)
{
	const struct xp_cfi_fde *left = a, *right = b;

	return xp_compare(left->is_debug, right->is_debug) ?: xp_compare(left->vaddr, right->vaddr);
}

static int by_vaddr_alone(const void *a, const void *b)
{
	const struct xp_cfi_fde *left = a, *right = b;

	return left->vaddr < right->vaddr ? -1 : left->vaddr > right->vaddr;
}

static bool is_sorted(const struct xp_cfi_fdes *fdes)
{
	for (size_t i = 1; i < fdes->count; i++)
		if (by_vaddr(&fdes->all[i - 1], &fdes->all[i]) > 0)
			return false;
	return true;
}

void xp_cfi_fdes_sort(struct xp_cfi_fdes *fdes)
{
	struct xp_cfi_fde *all = fdes->all;
	size_t eh_count = 0, kept, eh = 0;

	if (!fdes->count)
		return;
	if (!is_sorted(fdes))
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

void xp_cfi_fdes_start(const struct xp_cfi_fdes *fdes, const struct xp_cfi_fde *fde, struct xp_cfi_program *program)
{
	xp_cfi_program_start(program, &fdes->commons[fde->common], fde->program, fde->program + fde->program_bytes,
			     fde->vaddr);
}

void xp_cfi_fdes_free(struct xp_cfi_fdes *fdes)
{
	free(fdes->commons);
	free(fdes->all);
}
