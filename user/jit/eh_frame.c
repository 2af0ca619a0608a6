// SPDX-License-Identifier: BSD-2-Clause
#include "jit/eh_frame.h"

#include <dwarf.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/util.h"
#include "elf/dwarf_cursor.h"

#define PCREL_SDATA4 0x1b
#define TABLE_ENTRY_BYTES 8
#define HEADER_BYTES 12
#define CIE_BYTES_MAX 256 /* instructions that each entry executes first; compilers need 6 bytes */

struct instructions {
	const uint8_t *bytes;
	size_t size;
};

struct cie {
	uint64_t code_factor;
	int64_t data_factor;
	uint8_t return_register;
	uint8_t encoding; /* of addresses */
	bool is_augmented;
	bool is_signal;
	struct instructions instructions;
};

struct xp_jit_fde {
	uint64_t start;
	uint64_t size;
	struct cie cie;
	struct instructions instructions;
};

/* ---- reading ---- */

struct reader {
	const uint8_t *bytes;
	size_t size;
	uint64_t address;
	struct xp_jit_eh_frames *frames;
	size_t room;
	/* the last CIE, which most entries share */
	struct cie cie;
	uint64_t cie_offset;
	bool has_cie;
};

static struct instructions rest(const struct xp_dwarf_cursor *cursor)
{
	return (struct instructions){ cursor->at, (size_t)(cursor->end - cursor->at) };
}

static void take_augmentation(struct xp_dwarf_cursor *cursor, struct cie *cie, const char *augmentation)
{
	struct xp_dwarf_cursor data = *cursor;
	uint64_t bytes;

	if (!*augmentation)
		return;
	bytes = xp_dwarf_uleb(cursor);
	if (*augmentation++ != 'z' || !xp_dwarf_has(cursor, bytes)) {
		cursor->bad = true;
		return;
	}
	data = (struct xp_dwarf_cursor){ cursor->at, cursor->at + bytes, false };
	cursor->at += bytes;
	cie->is_augmented = true;
	for (; *augmentation && !data.bad; augmentation++) {
		if (*augmentation == 'R')
			cie->encoding = xp_dwarf_fixed(&data, 1);
		else if (*augmentation == 'L')
			xp_dwarf_fixed(&data, 1);
		else if (*augmentation == 'P')
			xp_dwarf_pointer(&data, xp_dwarf_fixed(&data, 1));
		else if (*augmentation == 'S')
			cie->is_signal = true;
		else if (*augmentation != 'B') /* signed return addresses of another architecture */
			data.bad = true;
	}
	cursor->bad |= data.bad;
}

/* Opens the contents of an entry: the bytes after its length field. */
static bool open_entry(const struct reader *reader, uint64_t offset, struct xp_dwarf_cursor *cursor)
{
	uint32_t length;

	if (offset > reader->size || reader->size - offset < 8)
		return false;
	memcpy(&length, reader->bytes + offset, sizeof(length));
	length = le32toh(length);
	if (length < 4 || length > reader->size - offset - 4) /* 0xffffffff is too large, too */
		return false;
	*cursor = (struct xp_dwarf_cursor){ reader->bytes + offset + 4, reader->bytes + offset + 4 + length, false };
	return true;
}

static bool read_cie(struct reader *reader, uint64_t offset)
{
	struct xp_dwarf_cursor cursor;
	struct cie cie = { 0 };
	const char *augmentation;
	uint64_t version;

	if (reader->cie_offset == offset && reader->has_cie)
		return true;
	reader->has_cie = false;
	if (!open_entry(reader, offset, &cursor) || xp_dwarf_fixed(&cursor, 4))
		return false;
	version = xp_dwarf_fixed(&cursor, 1);
	augmentation = xp_dwarf_text(&cursor);
	cie.code_factor = xp_dwarf_uleb(&cursor);
	cie.data_factor = xp_dwarf_sleb(&cursor);
	cie.return_register = version == 1 ? xp_dwarf_fixed(&cursor, 1) : xp_dwarf_uleb(&cursor);
	take_augmentation(&cursor, &cie, augmentation);
	if (cursor.bad || (version != 1 && version != 3) || (cie.encoding & 0x70 && (cie.encoding & 0x70) != 0x10))
		return false;
	cie.instructions = rest(&cursor);
	reader->cie = cie;
	reader->cie_offset = offset;
	reader->has_cie = true;
	return true;
}

static int add(struct reader *reader, const struct xp_jit_fde *fde)
{
	struct xp_jit_eh_frames *frames = reader->frames;

	if (XP_ARRAY_RESERVE(frames->fdes, reader->room, frames->count + 1))
		return -ENOMEM;
	frames->fdes[frames->count++] = *fde;
	return 0;
}

/* Reads an FDE. The first field, pointer, is the distance to its CIE. */
static int read_fde(struct reader *reader, struct xp_dwarf_cursor *cursor)
{
	uint64_t place = cursor->at - reader->bytes, pointer = xp_dwarf_fixed(cursor, 4), at;
	struct xp_jit_fde fde;

	if (!pointer || pointer > place || !read_cie(reader, place - pointer))
		return 0;
	fde.cie = reader->cie;
	at = cursor->at - reader->bytes;
	fde.start = xp_dwarf_pointer(cursor, fde.cie.encoding);
	if (fde.cie.encoding & DW_EH_PE_pcrel)
		fde.start += reader->address + at;
	fde.size = xp_dwarf_pointer(cursor, fde.cie.encoding & 0x07); /* unsigned */
	if (fde.cie.is_augmented)
		xp_dwarf_skip(cursor, xp_dwarf_uleb(cursor));
	fde.instructions = rest(cursor);
	return cursor->bad ? 0 : add(reader, &fde);
}

static int by_start(const void *a, const void *b)
{
	const struct xp_jit_fde *first = a, *second = b;

	return (first->start > second->start) - (first->start < second->start);
}

int xp_jit_eh_frames_read(struct xp_jit_eh_frames *frames, const uint8_t *bytes, size_t size, uint64_t address)
{
	struct reader reader = { .bytes = bytes, .size = size, .address = address, .frames = frames };
	struct xp_dwarf_cursor cursor;
	uint64_t offset = 0;
	int err = 0;

	*frames = (struct xp_jit_eh_frames){ 0 };
	while (!err && frames->count < XP_JIT_EH_FRAMES_MAX && open_entry(&reader, offset, &cursor)) {
		offset = cursor.end - bytes;
		err = read_fde(&reader, &cursor);
	}
	if (err)
		xp_jit_eh_frames_free(frames);
	else if (frames->count)
		qsort(frames->fdes, frames->count, sizeof(*frames->fdes), by_start);
	return err;
}

void xp_jit_eh_frames_free(struct xp_jit_eh_frames *frames)
{
	free(frames->fdes);
	*frames = (struct xp_jit_eh_frames){ 0 };
}

/* ---- writing ---- */

struct writer {
	uint8_t *bytes; /* NULL: only count the size */
	size_t size;
};

static void put(struct writer *writer, const void *bytes, size_t size)
{
	if (writer->bytes)
		memcpy(writer->bytes + writer->size, bytes, size);
	writer->size += size;
}

static void put8(struct writer *writer, uint8_t value)
{
	put(writer, &value, sizeof(value));
}

static void put32(struct writer *writer, uint64_t value)
{
	uint32_t low = htole32((uint32_t)value);

	put(writer, &low, sizeof(low));
}

static void put_uleb(struct writer *writer, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		put8(writer, value | 0x80);
	put8(writer, value);
}

static void put_sleb(struct writer *writer, int64_t value)
{
	for (; value < -64 || value > 63; value >>= 7)
		put8(writer, value | 0x80);
	put8(writer, value & 0x7f);
}

/*
 * Pads the entry so that its length, including the length field, is a multiple of 8, and writes the length to its
 * start.
 */
static void end_entry(struct writer *writer, size_t begin)
{
	struct writer length = { writer->bytes, begin };

	while ((writer->size - begin) % 8)
		put8(writer, DW_CFA_nop);
	put32(&length, writer->size - begin - 4);
}

static void put_cie(struct writer *writer, const struct cie *cie)
{
	size_t begin = writer->size;

	put32(writer, 0);
	put32(writer, 0);
	put8(writer, 1);
	put(writer, cie->is_signal ? "zRS" : "zR", cie->is_signal ? 4 : 3);
	put_uleb(writer, cie->code_factor);
	put_sleb(writer, cie->data_factor);
	put8(writer, cie->return_register);
	put_uleb(writer, 1);
	put8(writer, PCREL_SDATA4);
	put(writer, cie->instructions.bytes, cie->instructions.size);
	end_entry(writer, begin);
}

/* Writes an FDE. address: of the section. */
static void put_fde(struct writer *writer, const struct xp_jit_fde *fde, size_t cie, uint64_t address)
{
	size_t begin = writer->size;

	put32(writer, 0);
	put32(writer, begin + 4 - cie);
	put32(writer, fde->start - (address + begin + 8));
	put32(writer, fde->size);
	put_uleb(writer, 0);
	put(writer, fde->instructions.bytes, fde->instructions.size);
	end_entry(writer, begin);
}

/* Stores the start of each entry in places. */
static void put_frame(struct writer *writer, const struct xp_jit_fde *fdes, size_t count, uint64_t address,
		      uint32_t *places)
{
	for (size_t i = 0; i < count; i++) {
		size_t cie = writer->size;

		put_cie(writer, &fdes[i].cie);
		places[i] = writer->size;
		put_fde(writer, &fdes[i], cie, address);
	}
	put32(writer, 0);
}

static void put_header(struct writer *writer, const struct xp_jit_fde *fdes, size_t count, const uint32_t *places,
		       uint64_t address, uint64_t frame)
{
	static const uint8_t encodings[] = { 1, PCREL_SDATA4, DW_EH_PE_udata4, DW_EH_PE_datarel | DW_EH_PE_sdata4 };

	put(writer, encodings, sizeof(encodings));
	put32(writer, frame - (address + writer->size));
	put32(writer, count);
	for (size_t i = 0; i < count; i++) {
		put32(writer, fdes[i].start - address);
		put32(writer, frame + places[i] - address);
	}
}

/* Returns the entries in the function. */
static const struct xp_jit_fde *find(const struct xp_jit_eh_frames *frames, uint64_t start, uint64_t size,
				     size_t *count)
{
	size_t low = XP_FIND_FIRST(frames->count, i, frames->fdes[i].start < start), high;

	for (high = low; high < frames->count; high++) {
		uint64_t offset = frames->fdes[high].start - start;

		if (offset >= size || frames->fdes[high].size > size - offset)
			break;
	}
	*count = high - low;
	return *count ? frames->fdes + low : NULL;
}

static int lay(struct xp_jit_eh_frame *made, const struct xp_jit_fde *fdes, size_t count, uint64_t at)
{
	uint32_t *places = calloc(count, sizeof(*places));
	struct writer writer = { 0 };
	int err = -ENOMEM;

	if (!places)
		return err;
	put_frame(&writer, fdes, count, 0, places);
	made->frame_bytes = writer.size;
	made->header_bytes = HEADER_BYTES + count * TABLE_ENTRY_BYTES;
	if (made->frame_bytes + made->header_bytes > XP_JIT_EH_FRAME_BYTES_MAX) {
		err = -E2BIG;
		goto out;
	}
	made->frame = malloc(made->frame_bytes);
	made->header = malloc(made->header_bytes);
	if (!made->frame || !made->header)
		goto out;
	writer = (struct writer){ made->frame, 0 };
	put_frame(&writer, fdes, count, at, places);
	writer = (struct writer){ made->header, 0 };
	put_header(&writer, fdes, count, places, at + made->frame_bytes, at);
	err = 0;
out:
	free(places);
	return err;
}

int xp_jit_eh_frame_make(struct xp_jit_eh_frame *made, const struct xp_jit_eh_frames *frames, uint64_t start,
			 uint64_t size)
{
	size_t count;
	const struct xp_jit_fde *fdes = find(frames, start, size, &count);
	int err;

	*made = (struct xp_jit_eh_frame){ 0 };
	if (!count || size > INT32_MAX / 2)
		return -ENOENT;
	if (count > XP_JIT_EH_FRAME_BYTES_MAX / TABLE_ENTRY_BYTES)
		return -E2BIG;
	err = lay(made, fdes, count, start + ((size + 7) & ~7ull));
	if (err)
		xp_jit_eh_frame_free(made);
	return err;
}

void xp_jit_eh_frame_free(struct xp_jit_eh_frame *made)
{
	free(made->frame);
	free(made->header);
	*made = (struct xp_jit_eh_frame){ 0 };
}

/* ---- rows ---- */

/* Starts the program of an entry. Returns false if the program is not usable. */
static bool start_program(struct xp_cfi_program *program, struct xp_cfi_common *common, const struct xp_jit_fde *fde)
{
	const struct instructions *first = &fde->cie.instructions, *then = &fde->instructions;
	const Dwarf_CIE cie = {
		.initial_instructions = first->bytes,
		.initial_instructions_end = first->bytes + first->size,
		.code_alignment_factor = fde->cie.code_factor,
		.data_alignment_factor = fde->cie.data_factor,
		.return_address_register = fde->cie.return_register,
		.augmentation = fde->cie.is_signal ? "zRS" : "zR",
	};

	if (first->size > CIE_BYTES_MAX)
		return false;
	xp_cfi_common_read(common, &cie);
	xp_cfi_program_start(program, common, then->bytes, then->bytes + then->size, fde->start);
	return true;
}

int xp_jit_eh_frame_rows(struct xp_cfi_rows *rows, const struct xp_jit_eh_frames *frames, uint64_t start, uint64_t size)
{
	static const struct xp_cfi_row none;
	uint64_t at = start;
	size_t count;
	const struct xp_jit_fde *fde = find(frames, start, size, &count);
	int err = count && size <= INT32_MAX ? 0 : -ENOENT;

	/* If entries overlap, the first one applies. */
	for (; !err && count; fde++, count--) {
		uint64_t from = XP_MAX(at, fde->start), to = fde->start + fde->size;
		struct xp_cfi_common common;
		struct xp_cfi_program program;

		if (from >= to || !start_program(&program, &common, fde))
			continue;
		err = xp_cfi_rows_run(rows, &program, from, to, -start);
		if (!err)
			err = xp_cfi_rows_add(rows, (uint32_t)(to - start), &none, NULL);
		at = to;
	}
	return err;
}
