// SPDX-License-Identifier: BSD-2-Clause
#include "elf/usdt.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

/* https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation */
#define NOTE_NAME "stapsdt"
#define NOTE_TYPE 3

/* The first part of a note's descriptor, before its three strings. */
struct places {
	uint64_t vaddr;
	uint64_t base; /* address of .stapsdt.base when the file was linked */
	uint64_t semaphore;
};

/* Reads a string and its terminator from [*at, end). Returns NULL if the terminator is missing. */
static const char *take_text(const uint8_t **at, const uint8_t *end)
{
	const char *text = (const char *)*at;
	const uint8_t *last = memchr(*at, 0, (size_t)(end - *at));

	if (!last)
		return NULL;
	*at = last + 1;
	return text;
}

static bool read_descriptor(struct xp_usdt_probe *probe, const uint8_t *at, size_t bytes, uint64_t base)
{
	const uint8_t *end = at + bytes;
	struct places places;
	uint64_t moved;

	if (bytes < sizeof(places))
		return false;
	memcpy(&places, at, sizeof(places));
	at += sizeof(places);
	moved = base ? base - places.base : 0;
	probe->vaddr = places.vaddr + moved;
	probe->semaphore = places.semaphore ? places.semaphore + moved : 0;
	probe->provider = take_text(&at, end);
	probe->name = probe->provider ? take_text(&at, end) : NULL;
	probe->arguments = probe->name ? take_text(&at, end) : NULL;
	return probe->arguments;
}

int xp_usdt_parse(struct xp_usdt_probes *probes, const uint8_t *notes, size_t bytes, uint64_t base)
{
	Elf64_Nhdr header;

	for (uint64_t at = 0; at < bytes && bytes - at >= sizeof(header);) {
		const uint64_t name_at = at + sizeof(header);
		struct xp_usdt_probe probe;
		uint64_t descriptor_at;

		memcpy(&header, notes + at, sizeof(header));
		descriptor_at = name_at + (header.n_namesz + (uint64_t)3) / 4 * 4;
		if (descriptor_at > bytes || header.n_descsz > bytes - descriptor_at)
			break;
		at = descriptor_at + (header.n_descsz + (uint64_t)3) / 4 * 4;
		if (header.n_type != NOTE_TYPE || header.n_namesz != sizeof(NOTE_NAME) ||
		    memcmp(notes + name_at, NOTE_NAME, sizeof(NOTE_NAME)) != 0)
			continue;
		if (!read_descriptor(&probe, notes + descriptor_at, header.n_descsz, base))
			break;
		if (XP_ARRAY_ADD(probes->all, probes->count, probes->room, probe))
			return -ENOMEM;
	}
	return 0;
}

int xp_usdt_read(struct xp_usdt_probes *probes, struct xp_elf_file *file)
{
	GElf_Shdr notes, base;

	*probes = (struct xp_usdt_probes){ 0 };
	if (!xp_elf_file_section(file, ".note.stapsdt", 0, &notes) || notes.sh_type != SHT_NOTE || !notes.sh_size ||
	    notes.sh_size > XP_USDT_NOTES_BYTES_MAX)
		return 0;
	probes->notes = malloc(notes.sh_size);
	if (!probes->notes)
		return -ENOMEM;
	if (!xp_elf_file_read(file, probes->notes, notes.sh_offset, notes.sh_size))
		return 0;
	return xp_usdt_parse(probes, probes->notes, notes.sh_size,
			     xp_elf_file_section(file, ".stapsdt.base", 0, &base) ? base.sh_addr : 0);
}

void xp_usdt_free(struct xp_usdt_probes *probes)
{
	free(probes->all);
	free(probes->notes);
}
