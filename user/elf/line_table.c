// SPDX-License-Identifier: BSD-2-Clause
#include "elf/line_table.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_pool.h"
#include "base/u64_map.h"
#include "base/util.h"

#define ABBREV_CODE 1
#define DWARF_VERSION 4
#define ADDRESS_BYTES 8
#define FILE_NAMES_BYTES_MAX (64u << 20)

static const uint8_t abbrev[] = { ABBREV_CODE,
				  DW_TAG_compile_unit,
				  DW_CHILDREN_no,
				  DW_AT_low_pc,
				  DW_FORM_addr,
				  DW_AT_high_pc,
				  DW_FORM_data8,
				  DW_AT_stmt_list,
				  DW_FORM_sec_offset,
				  0,
				  0,
				  0 };
/* Numbers of LEB128 operands of the standard opcodes. */
static const uint8_t opcode_operands[] = { 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1 };

struct making {
	FILE *out;
	struct xp_text_pool files; /* equal strings have equal addresses */
	struct xp_u64_map numbers; /* their numbers in the table, by the address of the string */
};

static void put(FILE *out, uint64_t value, size_t bytes)
{
	for (; bytes; bytes--, value >>= 8)
		putc((int)(value & 0xff), out);
}

static void put_unsigned(FILE *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		putc((int)(value & 0x7f) | 0x80, out);
	putc((int)value, out);
}

static void put_signed(FILE *out, int64_t value)
{
	while (value < -0x40 || value > 0x3f) {
		putc((int)(value & 0x7f) | 0x80, out);
		value >>= 7;
	}
	putc((int)(value & 0x7f), out);
}

/* ---- the header, with the names of the files ---- */

/* Returns the number of a file, or 0 if it is not in the table. */
static uint32_t number_of(struct making *making, const char *file)
{
	const char *kept = file ? xp_text_pool_keep(&making->files, file) : NULL;
	const uint32_t *number = kept ? xp_u64_map_find(&making->numbers, (uintptr_t)kept) : NULL;

	return number ? *number : 0;
}

static int add_files(struct making *making, const struct xp_source_line *lines, size_t count, FILE *out)
{
	for (size_t i = 0; i < count; i++) {
		const char *kept;

		if (!lines[i].file || !*lines[i].file || number_of(making, lines[i].file))
			continue;
		kept = xp_text_pool_keep(&making->files, lines[i].file);
		if (!kept)
			continue;
		if (!xp_u64_map_add(&making->numbers, (uintptr_t)kept, (uint32_t)making->numbers.count + 1))
			return -ENOMEM;
		fputs(kept, out);
		put(out, 0, 4); /* ends the name; directory, time and length are 0 */
	}
	putc(0, out);
	return making->numbers.count ? 0 : -ENODATA;
}

/* Writes the part after header_length. */
static int put_header(struct making *making, const struct xp_source_line *lines, size_t count, FILE *out)
{
	putc(1, out); /* minimum_instruction_length */
	putc(1, out); /* maximum_operations_per_instruction */
	putc(1, out); /* default_is_stmt */
	putc(0, out); /* line_base, line_range: special opcodes are not used */
	putc(1, out);
	putc(sizeof(opcode_operands) + 1, out);
	fwrite(opcode_operands, sizeof(opcode_operands), 1, out);
	putc(0, out); /* no directories */
	return add_files(making, lines, count, out);
}

/* ---- the program: a sequence for each run of functions with known lines ---- */

static void begin_sequence(FILE *out, uint64_t address)
{
	putc(0, out);
	put_unsigned(out, 1 + ADDRESS_BYTES);
	putc(DW_LNE_set_address, out);
	put(out, address, ADDRESS_BYTES);
}

static void end_sequence(FILE *out)
{
	putc(0, out);
	put_unsigned(out, 1);
	putc(DW_LNE_end_sequence, out);
}

static void put_program(struct making *making, const struct xp_source_line *lines, size_t count, uint64_t start,
			uint64_t function_bytes)
{
	FILE *out = making->out;
	uint32_t file = 1, line = 1;
	bool in_sequence = false;

	for (size_t i = 0; i < count; i++) {
		uint32_t number = number_of(making, lines[i].file);

		if (!number && in_sequence)
			end_sequence(out);
		if (number && !in_sequence) {
			begin_sequence(out, start + i * function_bytes);
			file = line = 1;
		}
		in_sequence = number;
		if (!number)
			continue;
		if (number != file) {
			putc(DW_LNS_set_file, out);
			put_unsigned(out, number);
		}
		putc(DW_LNS_advance_line, out);
		put_signed(out, (int64_t)lines[i].line - line);
		putc(DW_LNS_copy, out);
		putc(DW_LNS_advance_pc, out);
		put_unsigned(out, function_bytes);
		file = number;
		line = lines[i].line;
	}
	if (in_sequence)
		end_sequence(out);
}

/* ---- the sections ---- */

/* Closes the stream. Its *text is valid even after an error. Returns 0 or -errno. */
static int finish(FILE *stream, int err)
{
	if (!err && ferror(stream))
		err = -ENOMEM;
	if (fclose(stream) && !err)
		err = -ENOMEM;
	return err;
}

static int make_lines(struct making *making, struct xp_line_table *table, const struct xp_source_line *lines,
		      size_t count, uint64_t start, uint64_t function_bytes)
{
	char *header = NULL, *program = NULL, *whole = NULL;
	size_t header_bytes = 0, program_bytes = 0, bytes;
	FILE *out = open_memstream(&header, &header_bytes);
	int err = out ? finish(out, put_header(making, lines, count, out)) : -ENOMEM;

	if (!err) {
		making->out = open_memstream(&program, &program_bytes);
		err = making->out ? 0 : -ENOMEM;
	}
	if (!err) {
		put_program(making, lines, count, start, function_bytes);
		err = finish(making->out, 0);
	}
	bytes = header_bytes + program_bytes + sizeof(uint16_t) + sizeof(uint32_t);
	if (!err && bytes >= 0xfffffff0u)
		err = -EFBIG;
	out = err ? NULL : open_memstream(&whole, &table->line_bytes);
	if (!err && !out)
		err = -ENOMEM;
	if (!err) {
		put(out, bytes, 4);
		put(out, DWARF_VERSION, 2);
		put(out, header_bytes, 4);
		fwrite(header, header_bytes, 1, out);
		fwrite(program, program_bytes, 1, out);
		err = finish(out, 0);
	}
	table->lines = (uint8_t *)whole;
	free(header);
	free(program);
	return err;
}

static int make_info(struct xp_line_table *table, uint64_t start, uint64_t bytes)
{
	FILE *out = fmemopen(table->info, sizeof(table->info), "w");
	const uint32_t length = 2 + 4 + 1 + 1 + ADDRESS_BYTES + 8 + 4;

	if (!out)
		return -ENOMEM;
	put(out, length, 4);
	put(out, DWARF_VERSION, 2);
	put(out, 0, 4); /* offset in .debug_abbrev */
	putc(ADDRESS_BYTES, out);
	putc(ABBREV_CODE, out);
	put(out, start, ADDRESS_BYTES);
	put(out, bytes, 8);
	put(out, 0, 4); /* offset in .debug_line */
	table->info_bytes = 4 + length;
	return finish(out, 0);
}

int xp_line_table_make(struct xp_line_table *table, const struct xp_source_line *lines, size_t count, uint64_t start,
		       uint64_t function_bytes)
{
	struct making *making = calloc(1, sizeof(*making));
	int err;

	*table = (struct xp_line_table){ .abbrev = abbrev, .abbrev_bytes = sizeof(abbrev) };
	if (!making)
		return -ENOMEM;
	making->files.bytes_max = FILE_NAMES_BYTES_MAX;
	err = make_lines(making, table, lines, count, start, function_bytes);
	if (!err)
		err = make_info(table, start, count * function_bytes);
	xp_text_pool_free(&making->files);
	xp_u64_map_free(&making->numbers);
	free(making);
	if (err)
		xp_line_table_free(table);
	return err;
}

void xp_line_table_free(struct xp_line_table *table)
{
	free(table->lines);
	table->lines = NULL;
}
