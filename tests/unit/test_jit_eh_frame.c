// SPDX-License-Identifier: BSD-2-Clause
/* Hand-written sections from "Linux Standard Base Core Specification", 10.6, including hostile ones. */
#include "jit/eh_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#define ADDRESS 0x7f0000100000ull /* of the section */
#define CODE 0x7f0000000000ull

static struct {
	uint8_t bytes[4096];
	size_t size;
	size_t entry;
} section;

static struct xp_jit_eh_frames frames;
static struct xp_jit_eh_frame made;

static void number(uint64_t value, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		section.bytes[section.size++] = value >> 8 * i;
}

static void put(const void *bytes, size_t size)
{
	memcpy(section.bytes + section.size, bytes, size);
	section.size += size;
}

static void begin(void)
{
	section.entry = section.size;
	number(0, 4);
}

static void end(void)
{
	size_t size = section.size;

	section.size = section.entry;
	number(size - section.entry - 4, 4);
	section.size = size;
}

/* "zR" with this encoding: CFA = rsp + 8, the return address at CFA - 8. Returns its offset. */
static size_t put_cie(uint8_t encoding)
{
	begin();
	number(0, 4);
	put("\1zR\0\1\x78\20\1", 8);
	number(encoding, 1);
	put("\14\7\10\220\1\0\0", 7);
	end();
	return section.entry;
}

/* advance 1, CFA = rsp + 16 */
static void put_fde(size_t cie, uint64_t start, unsigned int start_bytes, uint64_t size)
{
	begin();
	number(section.size - cie, 4);
	number(start, start_bytes);
	number(size, start_bytes);
	put("\0\x41\16\20", 4);
	end();
}

static void read_section(size_t size)
{
	uint8_t *bytes = malloc(size ? size : 1);

	assert_non_null(bytes);
	memcpy(bytes, section.bytes, size);
	xp_jit_eh_frames_free(&frames);
	assert_int_equal(xp_jit_eh_frames_read(&frames, bytes, size, ADDRESS), 0);
	free(bytes);
	/* the result needs the bytes */
	xp_jit_eh_frames_free(&frames);
	assert_int_equal(xp_jit_eh_frames_read(&frames, section.bytes, size, ADDRESS), 0);
}

static int setup(void **state)
{
	(void)state;
	memset(&section, 0, sizeof(section));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	xp_jit_eh_frames_free(&frames);
	xp_jit_eh_frame_free(&made);
	return 0;
}

/* For the function at CODE, with 0x25 bytes, so that the frame is at 0x28. */
static const uint8_t golden_frame[] = {
	20,   0,    0,	  0,	0,    0, 0, 0, 1, 'z',	'R', 0,	 1, 0x78, 16, 1,
	0x1b, 12,   7,	  8,	0x90, 1, 0, 0, /* CIE */
	20,   0,    0,	  0,	28,   0, 0, 0, /* FDE with its address at 0x28 + 0x20 */
	0xb8, 0xff, 0xff, 0xff, 0x25, 0, 0, 0, 0, 0x41, 14,  16, 0, 0,	  0,  0,
};
static const uint8_t golden_header[] = {
	1,    0x1b, 3,	  0x3b, 0xc8, 0xff, 0xff, 0xff, 1, 0, 0, 0, /* after 0x34 bytes of frame */
	0xa4, 0xff, 0xff, 0xff, 0xe4, 0xff, 0xff, 0xff,
};
static const uint8_t golden_terminator[4];

static void check_golden(void)
{
	assert_int_equal(made.frame_bytes, sizeof(golden_frame) + 4);
	assert_memory_equal(made.frame, golden_frame, sizeof(golden_frame));
	assert_memory_equal(made.frame + sizeof(golden_frame), golden_terminator, 4);
	assert_int_equal(made.header_bytes, sizeof(golden_header));
	assert_memory_equal(made.header, golden_header, sizeof(golden_header));
	xp_jit_eh_frame_free(&made);
}

static void make_golden(void)
{
	assert_int_equal(xp_jit_eh_frame_make(&made, &frames, CODE, 0x25), 0);
	check_golden();
}

/* The result is the same for every encoding of addresses. */
TEST_WITH(test_encodings, setup, teardown)
{
	size_t cie;

	cie = put_cie(0x00); /* absolute, 8 bytes */
	put_fde(cie, CODE, 8, 0x25);
	read_section(section.size);
	make_golden();
	setup(NULL);
	cie = put_cie(0x1b); /* relative, 4 bytes */
	put_fde(cie, CODE - (ADDRESS + section.size + 8), 4, 0x25);
	read_section(section.size);
	make_golden();
	setup(NULL);
	cie = put_cie(0x1c); /* relative, 8 bytes; the section ends with a terminator and extra bytes */
	put_fde(cie, CODE - (ADDRESS + section.size + 8), 8, 0x25);
	number(0, 4);
	put("\1\2\3", 3);
	read_section(section.size);
	make_golden();
}

/*
 * Several entries of one function and of others, unordered; an entry that is not completely inside does not belong to
 * the function.
 */
TEST_WITH(test_find, setup, teardown)
{
	size_t cie = put_cie(0x00);

	put_fde(cie, CODE + 0x200, 8, 0x10);
	put_fde(cie, CODE + 0x110, 8, 0x10);
	put_fde(cie, CODE, 8, 0x10);
	put_fde(cie, CODE + 0x100, 8, 0x10);
	read_section(section.size);
	assert_int_equal(frames.count, 4);
	assert_int_equal(xp_jit_eh_frame_make(&made, &frames, CODE + 0x100, 0x20), 0);
	assert_int_equal(made.header_bytes, 12 + 2 * 8);
	xp_jit_eh_frame_free(&made);
	assert_int_equal(xp_jit_eh_frame_make(&made, &frames, CODE + 0x100, 0x1f), 0);
	assert_int_equal(made.header_bytes, 12 + 8);
	xp_jit_eh_frame_free(&made);
	assert_int_equal(xp_jit_eh_frame_make(&made, &frames, CODE + 0x101, 0xf), -ENOENT);
	assert_int_equal(xp_jit_eh_frame_make(&made, &frames, CODE + 0x1000, 0x10), -ENOENT);
	assert_null(made.frame);
}

/* Personality routines and exception data are dropped, a signal frame stays one, unknown augmentations are left out. */
TEST_WITH(test_augmentations, setup, teardown)
{
	size_t cie, unknown;

	begin();
	number(0, 4);
	put("\1zPLRS\0\1\x78\20\7\x9b\1\2\3\4\x1b\0\14\7\10\220\1", 24);
	end();
	cie = section.entry;
	begin();
	number(section.size - cie, 4);
	number(CODE, 8);
	number(0x25, 8);
	put("\4\1\2\3\4\x41\16\20", 8);
	end();
	begin();
	number(0, 4);
	put("\1zX\0\1\x78\20\1\0\14\7\10\220\1", 14);
	end();
	unknown = section.entry;
	put_fde(unknown, CODE + 0x100, 8, 0x25);
	read_section(section.size);
	assert_int_equal(frames.count, 1);
	assert_int_equal(xp_jit_eh_frame_make(&made, &frames, CODE, 0x25), 0);
	assert_memory_equal(made.frame + 8, "\1zRS\0\1\x78\20\1\x1b\14\7\10\220\1", 15);
	assert_memory_equal(made.frame + 24 + 8 + 8, "\0\x41\16\20\0\0\0\0", 8);
}

static void check_rule(const struct xp_cfi_rows *rows, uint32_t offset, uint8_t rule, uint16_t cfa)
{
	struct xp_cfi_found found;

	xp_cfi_rows_find(rows, offset, &found);
	assert_int_equal(found.row.rule, rule);
	assert_int_equal(found.row.cfa, cfa);
}

/* One entry for most of the function, one for a part of the same code and one for its end. */
TEST_WITH(test_rows, setup, teardown)
{
	struct xp_cfi_rows rows = { 0 };
	size_t cie = put_cie(0x00);

	put_fde(cie, CODE + 0x10, 8, 0x10);
	put_fde(cie, CODE + 0x18, 8, 0x10); /* its rows advance by 1, so that only the last one is in its own part */
	put_fde(cie, CODE + 0x30, 8, 0x10);
	read_section(section.size);
	assert_int_equal(xp_jit_eh_frame_rows(&rows, &frames, CODE, 0x50), 0);
	check_rule(&rows, 0, XP_CFI_NONE, 0);
	check_rule(&rows, 0x0f, XP_CFI_NONE, 0);
	check_rule(&rows, 0x10, XP_CFI_RSP, 1);
	check_rule(&rows, 0x11, XP_CFI_RSP, 2);
	check_rule(&rows, 0x18, XP_CFI_RSP, 2);
	check_rule(&rows, 0x27, XP_CFI_RSP, 2);
	check_rule(&rows, 0x28, XP_CFI_NONE, 0);
	check_rule(&rows, 0x30, XP_CFI_RSP, 1);
	check_rule(&rows, 0x3f, XP_CFI_RSP, 2);
	check_rule(&rows, 0x40, XP_CFI_NONE, 0);
	check_rule(&rows, UINT32_MAX, XP_CFI_NONE, 0);
	assert_true(xp_cfi_rows_bytes(&rows) >= 6 * sizeof(struct xp_cfi_row));
	xp_cfi_rows_free(&rows);
	rows = (struct xp_cfi_rows){ 0 };
	assert_int_equal(xp_jit_eh_frame_rows(&rows, &frames, CODE + 0x40, 0x10), -ENOENT);
	assert_int_equal(rows.count, 0);
}

/* Compilers need six bytes of instructions for all entries together. Half a megabyte of them gives no rules. */
TEST_WITH(test_slow, setup, teardown)
{
	enum { BYTES = 3000 };
	struct xp_cfi_rows rows = { 0 };
	size_t cie;

	begin();
	number(0, 4);
	put("\1zR\0\1\x78\20\1\0\14\7\10\220\1", 14);
	section.size += BYTES; /* DW_CFA_nop */
	end();
	cie = section.entry;
	put_fde(cie, CODE, 8, 0x10);
	read_section(section.size);
	assert_int_equal(frames.count, 1);
	assert_int_equal(xp_jit_eh_frame_rows(&rows, &frames, CODE, 0x10), 0);
	assert_int_equal(rows.count, 0);
	xp_cfi_rows_free(&rows);
}

/* For any end and any sizes. */
TEST_WITH(test_malformed, setup, teardown)
{
	struct xp_cfi_rows rows = { 0 };
	size_t size, cie = put_cie(0x00);

	put_fde(cie, CODE, 8, 0x25);
	size = section.size;
	for (size_t i = 0; i < size; i++) {
		read_section(i);
		assert_int_equal(frames.count, 0);
	}
	for (size_t i = 0; i < size; i++) {
		uint8_t before = section.bytes[i];

		for (unsigned int value = 0; value < 256; value++) {
			section.bytes[i] = value;
			read_section(size);
			if (frames.count && !xp_jit_eh_frame_make(&made, &frames, CODE, 0x25))
				xp_jit_eh_frame_free(&made);
			xp_jit_eh_frame_rows(&rows, &frames, CODE, 0x25);
			xp_cfi_rows_free(&rows);
			rows = (struct xp_cfi_rows){ 0 };
		}
		section.bytes[i] = before;
	}
	setup(NULL);
	number(UINT32_MAX, 4);
	number(UINT64_MAX, 8);
	number(0, 8);
	read_section(section.size);
	assert_int_equal(frames.count, 0);
}

/* A function with endless entries: no data is made. */
TEST_WITH(test_many, setup, teardown)
{
	enum { COUNT = 50000, CIE = 27, FDE = 28 };
	uint8_t *bytes = calloc(COUNT, FDE + CIE);
	size_t size;

	assert_non_null(bytes);
	put_fde(put_cie(0x00), CODE, 8, 1);
	size = section.size;
	memcpy(bytes, section.bytes, size);
	for (unsigned int i = 1; i < COUNT; i++) {
		uint32_t pointer;

		memcpy(bytes + size, section.bytes + section.entry, section.size - section.entry);
		pointer = size + 4;
		memcpy(bytes + size + 4, &pointer, 4);
		size += section.size - section.entry;
	}
	assert_int_equal(xp_jit_eh_frames_read(&frames, bytes, size, ADDRESS), 0);
	assert_int_equal(frames.count, COUNT);
	assert_int_equal(xp_jit_eh_frame_make(&made, &frames, CODE, 0x25), -E2BIG);
	free(bytes);
}
