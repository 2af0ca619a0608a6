/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An ELF file with an .eh_frame of any number of rows, built from the Linux Standard Base, section 10.6: the rule of
 * each row differs from the adjacent rows. Also files that cost their reader the most time or memory.
 */
#ifndef XPROF_TESTS_BIG_CFI_H
#define XPROF_TESTS_BIG_CFI_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cfi_elf.h"

static const uint8_t big_cfi_cie[] = { 20, 0,	 0,  0, 0,    0,    0, 0, 1,	'z', 'R', 0,
				       1,  0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1,   0,	  0 };

static inline size_t big_cfi_fde(uint8_t *to, uint64_t at, uint64_t vaddr, uint64_t section, uint32_t rows,
				 uint8_t step)
{
	uint8_t *p = to + 4;
	const uint32_t bytes = rows * step, cie = (uint32_t)(at + 4), start = (uint32_t)(vaddr - (section + at + 8));
	uint32_t length;

	memcpy(p, &cie, 4);
	memcpy(p + 4, &start, 4); /* pcrel */
	memcpy(p + 8, &bytes, 4);
	p[12] = 0; /* augmentation data */
	p += 13;
	for (uint32_t i = 0; i < rows; i++) {
		*p++ = 0x0e; /* DW_CFA_def_cfa_offset */
		*p++ = i & 1 ? 16 : 8;
		*p++ = 0x40 | step; /* DW_CFA_advance_loc */
	}
	while ((p - to) % 4)
		*p++ = 0;
	length = (uint32_t)(p - to) - 4;
	memcpy(to, &length, 4);
	return (size_t)(p - to);
}

/* Returns a memfd with `entries` FDEs of `rows` rows each, for `step` bytes (at most 63), or -1. */
static inline int big_cfi_elf(uint32_t entries, uint32_t rows, uint8_t step)
{
	const uint64_t code_bytes = (uint64_t)entries * rows * step;
	const uint64_t section = cfi_elf_behind(CFI_ELF_CODE, code_bytes);
	uint8_t *eh_frame = calloc(1, sizeof(big_cfi_cie) + entries * (rows * 3ul + 24));
	struct cfi_elf elf = { .code_bytes = code_bytes, .frames_address = section, .frames = eh_frame };
	size_t at = sizeof(big_cfi_cie);
	int fd;

	if (!eh_frame)
		return -1;
	memcpy(eh_frame, big_cfi_cie, sizeof(big_cfi_cie));
	for (uint32_t i = 0; i < entries; i++)
		at += big_cfi_fde(eh_frame + at, at, CFI_ELF_CODE + (uint64_t)i * rows * step, section, rows, step);
	elf.frames_bytes = at;
	fd = cfi_elf_make(&elf);
	free(eh_frame);
	return fd;
}

/* The linker's search table for run time: .eh_frame_hdr. */
struct big_cfi_index {
	uint8_t version;
	uint8_t encodings[3];
	int32_t frame;
	uint32_t count;
	int32_t entries[]; /* addresses of the code and of the FDE, relative to the index */
};

/* Returns a memfd with an index of `count` entries after `bytes` bytes of .eh_frame, or -1. put() fills both. */
static inline int indexed_cfi_elf(uint64_t code_bytes, size_t bytes, uint32_t count,
				  void (*put)(uint8_t *eh_frame, uint64_t section, struct big_cfi_index *index))
{
	struct cfi_elf elf = {
		.code_bytes = code_bytes,
		.frames_address = cfi_elf_behind(CFI_ELF_CODE, code_bytes),
		.frames_bytes = bytes,
		.index_bytes = sizeof(struct big_cfi_index) + count * 8ul,
	};
	uint8_t *eh_frame = calloc(1, bytes);
	struct big_cfi_index *index = calloc(1, elf.index_bytes);
	int fd = -1;

	if (eh_frame && index) {
		elf.index_address = cfi_elf_behind(elf.frames_address, bytes);
		elf.frames = eh_frame;
		elf.index = index;
		*index = (struct big_cfi_index){ .version = 1, .encodings = { 0x1b, 0x03, 0x3b }, .count = count };
		put(eh_frame, elf.frames_address, index);
		for (uint32_t i = 0; i < count; i++) { /* make section-relative values relative to the index */
			index->entries[2 * i] -= (int32_t)elf.index_address;
			index->entries[2 * i + 1] += (int32_t)(elf.frames_address - elf.index_address);
		}
		fd = cfi_elf_make(&elf);
	}
	free(index);
	free(eh_frame);
	return fd;
}

enum { ENDLESS_ENTRIES = 10000, ENDLESS_BYTES = 16 << 20 };

/* Puts the heads of the entries, and one program of nops that all entries share: it takes hours to read. */
static inline void put_endless(uint8_t *eh_frame, uint64_t section, struct big_cfi_index *index)
{
	const uint32_t head = 20, heads_end = sizeof(big_cfi_cie) + ENDLESS_ENTRIES * head;

	memcpy(eh_frame, big_cfi_cie, sizeof(big_cfi_cie));
	for (uint32_t i = 0; i < ENDLESS_ENTRIES; i++) {
		const uint32_t at = sizeof(big_cfi_cie) + i * head, vaddr = CFI_ELF_CODE + i;
		const uint32_t skipped = heads_end - (at + head), words[] = {
			ENDLESS_BYTES - (at + 4),
			at + 4,
			vaddr - (uint32_t)(section + at + 8),
			1,
			/* LEB128 of 4 bytes: the other bytes before the program */
			0x808080 | (skipped & 0x7f) | (skipped >> 7 & 0x7f) << 8 | (skipped >> 14 & 0x7f) << 16,
		};

		memcpy(eh_frame + at, words, sizeof(words));
		index->entries[2 * i] = (int32_t)vaddr;
		index->entries[2 * i + 1] = (int32_t)at;
	}
}

static inline int endless_cfi_elf(void)
{
	return indexed_cfi_elf(4096 * 4, ENDLESS_BYTES, ENDLESS_ENTRIES, put_endless);
}

/* The copies of all entries and their CIEs exceed 512 MB together, without the memory for sorting. */
enum { HOG_ENTRIES = 6000000 };

/* Two entries, each with its own CIE, repeated. */
static inline void put_hog(uint8_t *eh_frame, uint64_t section, struct big_cfi_index *index)
{
	uint32_t at[2], end = 0;

	for (uint32_t i = 0; i < 2; i++) {
		uint32_t cie = end;

		memcpy(eh_frame + cie, big_cfi_cie, sizeof(big_cfi_cie));
		at[i] = cie + sizeof(big_cfi_cie);
		end =
		    at[i] + (uint32_t)big_cfi_fde(eh_frame + at[i], at[i] - cie, CFI_ELF_CODE + i, section + cie, 1, 1);
	}
	for (uint32_t i = 0; i < HOG_ENTRIES; i++) {
		index->entries[2 * i] = CFI_ELF_CODE + 1;
		index->entries[2 * i + 1] = (int32_t)at[i & 1];
	}
}

static inline int hog_cfi_elf(void)
{
	return indexed_cfi_elf(4096, 4096, HOG_ENTRIES, put_hog);
}

#endif
