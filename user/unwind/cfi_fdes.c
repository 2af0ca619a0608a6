// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_fdes.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

#define PE_FORMAT 0x0f /* format of a pointer encoding; the next three bits are the base that is added */
#define NO_CIE UINT64_MAX

/* The state of reading a section. */
struct reader {
	struct xp_cfi_fdes *fdes;
	const struct xp_cfi_section *from;
	/* The last CIE. */
	uint64_t cie; /* its offset; NO_CIE: none yet */
	uint8_t encoding;
	bool has_data; /* entries have augmentation data */
};

/*
 * Opens the entry at this offset: moves the cursor to the bytes after its CIE pointer. Sets *cie to the offset of its
 * CIE, or to NO_CIE if the entry is itself a CIE. Returns false if there is no whole entry.
 */
static bool open_entry(const struct xp_cfi_section *from, uint64_t offset, struct xp_dwarf_cursor *entry, uint64_t *cie)
{
	uint64_t length, place, id;
	bool is_64_bit;

	if (offset >= from->size)
		return false;
	*entry = (struct xp_dwarf_cursor){ from->bytes + offset, from->bytes + from->size, false };
	length = xp_dwarf_fixed(entry, 4);
	is_64_bit = length == UINT32_MAX;
	if (is_64_bit)
		length = xp_dwarf_fixed(entry, 8);
	if (!length || !xp_dwarf_has(entry, length))
		return false;
	entry->end = entry->at + length;
	place = (uint64_t)(entry->at - from->bytes);
	id = xp_dwarf_fixed(entry, is_64_bit && from->is_debug ? 8 : 4);
	if (from->is_debug)
		*cie = !is_64_bit && id == UINT32_MAX ? NO_CIE : id;
	else
		*cie = id ? place - id : NO_CIE; /* a pointer before the section gives an offset after it */
	return true;
}

/* Reads the augmentation and its data. Returns the encoding of addresses in the entries; DW_EH_PE_omit: unsupported. */
static uint8_t read_augmentation(struct xp_dwarf_cursor *at, const char *letter, bool *is_signal)
{
	struct xp_dwarf_cursor data = *at;
	uint8_t encoding = DW_EH_PE_absptr;

	if (!*letter)
		return encoding;
	data.end = data.at;
	if (*letter == 'z') {
		uint64_t bytes = xp_dwarf_uleb(at);

		data.at = data.end = at->at;
		xp_dwarf_skip(at, bytes);
		data.end = at->at;
	}
	data.bad = at->bad || *letter != 'z';
	while (*++letter && !data.bad) {
		if (*letter == 'R')
			encoding = (uint8_t)xp_dwarf_fixed(&data, 1);
		else if (*letter == 'P')
			xp_dwarf_pointer(&data, (uint8_t)xp_dwarf_fixed(&data, 1));
		else if (*letter == 'L')
			xp_dwarf_fixed(&data, 1);
		else if (*letter == 'S')
			*is_signal = true;
		else
			data.bad |= *letter != 'B'; /* signed return addresses of another architecture */
	}
	return data.bad ? DW_EH_PE_omit : encoding;
}

/* Reads the CIE at this offset, if it is not the last one read. An unusable one has the encoding DW_EH_PE_omit. */
static int read_cie(struct reader *reader, uint64_t offset)
{
	struct xp_cfi_fdes *fdes = reader->fdes;
	struct xp_cfi_cie cie = { 0 };
	struct xp_dwarf_cursor at;
	const char *augmentation;
	uint64_t version, other;

	if (reader->cie == offset)
		return 0;
	if (XP_ARRAY_RESERVE(fdes->commons, fdes->common_room, fdes->common_count + 1))
		return -ENOMEM;
	reader->cie = offset;
	reader->encoding = DW_EH_PE_omit;
	if (!open_entry(reader->from, offset, &at, &other) || other != NO_CIE)
		return 0;
	version = xp_dwarf_fixed(&at, 1);
	augmentation = xp_dwarf_text(&at);
	if (version == 4)
		xp_dwarf_skip(&at, 2); /* address_size and segment_selector_size: 8 and 0 on x86-64 */
	cie.code_factor = xp_dwarf_uleb(&at);
	cie.data_factor = xp_dwarf_sleb(&at);
	cie.return_register = version == 1 ? xp_dwarf_fixed(&at, 1) : xp_dwarf_uleb(&at);
	reader->has_data = *augmentation == 'z';
	reader->encoding = read_augmentation(&at, augmentation, &cie.is_signal);
	if (at.bad || (version != 1 && version != 3 && version != 4))
		reader->encoding = DW_EH_PE_omit;
	cie.at = at.at;
	cie.end = at.end;
	xp_cfi_common_read(&fdes->commons[fdes->common_count++], &cie);
	return 0;
}

/* Reads the addresses of an entry and finds its program, which follows them. Returns false if it is malformed. */
static bool decode(const struct reader *reader, struct xp_dwarf_cursor *at, struct xp_cfi_fde *fde)
{
	uint64_t place = reader->from->vaddr + (uint64_t)(at->at - reader->from->bytes), size, end;

	if (reader->encoding & ~PE_FORMAT & ~DW_EH_PE_pcrel)
		return false;
	fde->vaddr = xp_dwarf_pointer(at, reader->encoding);
	if (reader->encoding & DW_EH_PE_pcrel)
		fde->vaddr += place;
	size = xp_dwarf_pointer(at, reader->encoding & 0x07); /* unsigned */
	if (at->bad || !size || size > UINT32_MAX || __builtin_add_overflow(fde->vaddr, size, &end))
		return false;
	fde->bytes = (uint32_t)size;
	fde->is_debug = reader->from->is_debug;
	fde->common = (uint32_t)reader->fdes->common_count - 1;
	if (reader->has_data)
		xp_dwarf_skip(at, xp_dwarf_uleb(at));
	fde->program = at->at;
	fde->program_bytes = (uint32_t)XP_MIN(at->end - at->at, (ptrdiff_t)UINT32_MAX);
	return !at->bad;
}

static int add(struct reader *reader, struct xp_dwarf_cursor *entry, uint64_t cie)
{
	struct xp_cfi_fdes *fdes = reader->fdes;
	struct xp_cfi_fde fde;
	int err = read_cie(reader, cie);

	if (err || !decode(reader, entry, &fde) || fde.vaddr >= fdes->end || fde.vaddr + fde.bytes <= fdes->start)
		return err;
	return XP_ARRAY_ADD(fdes->all, fdes->count, fdes->room, fde);
}

int xp_cfi_fdes_read(struct xp_cfi_fdes *fdes, const struct xp_cfi_section *from)
{
	struct reader reader = { .fdes = fdes, .from = from, .cie = NO_CIE };
	struct xp_dwarf_cursor entry;
	uint64_t offset = 0, cie;
	int err = 0;

	while (!err && open_entry(from, offset, &entry, &cie)) {
		offset = (uint64_t)(entry.end - from->bytes);
		if (cie != NO_CIE)
			err = add(&reader, &entry, cie);
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
	struct reader reader = { .fdes = fdes, .from = from, .cie = NO_CIE };
	size_t i;
	struct index_header header;
	int err = 0;

	if (index->size < sizeof(header))
		return 1;
	memcpy(&header, index->bytes, sizeof(header));
	if (header.version != 1 || header.frame_encoding != (DW_EH_PE_pcrel | DW_EH_PE_sdata4) ||
	    header.count_encoding != DW_EH_PE_udata4 || header.table_encoding != (DW_EH_PE_datarel | DW_EH_PE_sdata4) ||
	    !header.count || header.count > (index->size - sizeof(header)) / sizeof(struct index_entry))
		return 1;
	entries = index->bytes + sizeof(header);
	i = first_indexed(entries, header.count, index->vaddr, fdes->start);
	for (; !err && i < header.count; i++) {
		struct index_entry at = entry_at(entries, i);
		uint64_t offset = index->vaddr + (uint64_t)(int64_t)at.fde - from->vaddr;
		struct xp_dwarf_cursor entry;
		uint64_t cie;

		if (index->vaddr + (uint64_t)(int64_t)at.code >= fdes->end)
			break;
		if (open_entry(from, offset, &entry, &cie) && cie != NO_CIE)
			err = add(&reader, &entry, cie);
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
