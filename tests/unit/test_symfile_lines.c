// SPDX-License-Identifier: BSD-2-Clause
/* Hand-written line tables from DWARF 5, 6.2.4 to 6.2.6, including hostile ones, and a hostile reader. */
#include "jit/symfile_lines.h"

#include <elf.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"

static struct {
	uint8_t bytes[1 << 16];
	size_t size;
	size_t unit; /* offset of its length */
	size_t header;
} table;

static void number(uint64_t value, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		table.bytes[table.size++] = value >> 8 * i;
}

static void put(const void *bytes, size_t size)
{
	memcpy(table.bytes + table.size, bytes, size);
	table.size += size;
}

static void patch(size_t at, uint32_t value)
{
	size_t size = table.size;

	table.size = at;
	number(value, 4);
	table.size = size;
}

/* min_inst_length 1, default_is_stmt 1, line_base -5, line_range 14, opcode_base 13 */
static void begin_unit(uint16_t version)
{
	table.unit = table.size;
	number(0, 4);
	number(version, 2);
	if (version == 5)
		put("\10\0", 2);
	table.header = table.size;
	number(0, 4);
	put(version >= 4 ? "\1\1\1" : "\1\1", version >= 4 ? 3 : 2);
	put("\xfb\16\15\0\1\1\1\1\0\0\0\1\0\0\1", 15);
}

static void begin_program(void)
{
	patch(table.header, table.size - table.header - 4);
}

static void end_unit(void)
{
	patch(table.unit, table.size - table.unit - 4);
}

static void set_address(uint64_t address)
{
	put("\0\11\2", 3);
	number(address, 8);
}

/*
 * 0x1000 line 10 of a.c (by advance_line and copy), 0x1004 line 12 (special: adjusted 4 * 14 + 2 + 5 = 63, opcode 76),
 * 0x1015 line 12 with discriminator 3 (const_add_pc: 17, copy), 0x1025 line 7 of b.h (advance_pc 16, set_file 2).
 */
static void put_program(void)
{
	begin_program();
	set_address(0x1000);
	put("\3\11\1", 3);
	put("\114", 1);
	put("\10\0\2\4\3\1", 6);
	put("\2\20\4\2\3\173\1", 7);
	put("\2\4\0\1\1", 5);
	end_unit();
}

static void put_v4(void)
{
	begin_unit(4);
	put("inc\0\0", 5);
	put("a.c\0\0\0\0b.h\0\1\0\0\0", 15);
	put_program();
}

/* Of a symfile: the table, its strings, and one relocation. */
enum {
	SECTION_NULL,
	SECTION_TEXT,
	SECTION_LINE,
	SECTION_LINE_STR,
	SECTION_SYMTAB,
	SECTION_RELA,
	SECTION_NAMES,
	SECTIONS
};

static struct xp_jit_lines lines;
static struct xp_jit_line_reader reader;
static struct {
	const char *strings;
	size_t string_bytes;
	uint64_t text; /* 0: the numbers need no relocation */
	Elf64_Rela rela;
} input;

static const char names[] = "\0.debug_line\0.debug_line_str\0.names";

static uint8_t *make_file(const uint8_t *bytes, size_t size, size_t *file_bytes)
{
	static const Elf64_Sym symbols[] = { { 0 }, { .st_info = STT_SECTION, .st_shndx = SECTION_TEXT } };
	const struct {
		Elf64_Shdr header;
		const void *bytes;
	} sections[SECTIONS] = {
		[SECTION_TEXT] = { { .sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC, .sh_addr = input.text }, NULL },
		[SECTION_LINE] = { { .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_size = size }, bytes },
		[SECTION_LINE_STR] = { { .sh_name = 13, .sh_type = SHT_PROGBITS, .sh_size = input.string_bytes },
				       input.strings },
		[SECTION_SYMTAB] = { { .sh_type = SHT_SYMTAB,
				       .sh_size = sizeof(symbols),
				       .sh_entsize = sizeof(*symbols) },
				     symbols },
		[SECTION_RELA] = { { .sh_type = SHT_RELA,
				     .sh_size = input.text ? sizeof(input.rela) : 0,
				     .sh_link = SECTION_SYMTAB,
				     .sh_info = SECTION_LINE,
				     .sh_entsize = sizeof(input.rela) },
				   &input.rela },
		[SECTION_NAMES] = { { .sh_name = 29, .sh_type = SHT_STRTAB, .sh_size = sizeof(names) }, names },
	};
	Elf64_Ehdr header = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_REL,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_shoff = sizeof(header),
		.e_ehsize = sizeof(header),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS,
		.e_shstrndx = SECTION_NAMES,
	};
	uint8_t *file = calloc(1, sizeof(header) + SECTIONS * sizeof(Elf64_Shdr) + size + 4096);
	Elf64_Shdr *headers = (Elf64_Shdr *)(file + sizeof(header));

	assert_non_null(file);
	memcpy(file, &header, sizeof(header));
	*file_bytes = sizeof(header) + SECTIONS * sizeof(*headers);
	for (int i = 0; i < SECTIONS; i++) {
		headers[i] = sections[i].header;
		headers[i].sh_addralign = 1;
		headers[i].sh_offset = *file_bytes;
		if (headers[i].sh_type == SHT_NOBITS || !headers[i].sh_size)
			continue;
		memcpy(file + *file_bytes, sections[i].bytes, headers[i].sh_size);
		*file_bytes += (headers[i].sh_size + 7) & ~7ull;
	}
	return file;
}

static void read_bytes(const uint8_t *bytes, size_t size)
{
	size_t file_bytes;
	uint8_t *file = make_file(bytes, size, &file_bytes);

	xp_jit_lines_free(&lines);
	xp_jit_lines_read(&lines, &reader, file, file_bytes);
	free(file);
}

static void read_table(size_t size)
{
	read_bytes(table.bytes, size);
	assert_int_equal(reader.failures, 0);
}

static int setup(void **state)
{
	(void)state;
	memset(&table, 0, sizeof(table));
	memset(&input, 0, sizeof(input));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	xp_jit_lines_free(&lines);
	xp_jit_line_reader_stop(&reader);
	reader.failures = 0;
	return 0;
}

static void check(size_t index, uint64_t address, uint32_t line, uint32_t discriminator, const char *file)
{
	assert_in_range(index, 0, lines.count - 1);
	assert_int_equal(lines.lines[index].address, address);
	assert_int_equal(lines.lines[index].line, line);
	assert_int_equal(lines.lines[index].discriminator, discriminator);
	assert_string_equal(lines.lines[index].file, file);
}

static void check_program(const char *a, const char *b)
{
	assert_int_equal(lines.count, 4);
	check(0, 0x1000, 10, 0, a);
	check(1, 0x1004, 12, 0, a);
	check(2, 0x1015, 12, 3, a);
	check(3, 0x1025, 7, 0, b);
}

static void test_v4(void **state)
{
	size_t count;

	(void)state;
	put_v4();
	read_table(table.size);
	check_program("a.c", "inc/b.h");
	assert_ptr_equal(xp_jit_lines_of(&lines, 0x1000, 0x15, &count), lines.lines);
	assert_int_equal(count, 2);
	assert_ptr_equal(xp_jit_lines_of(&lines, 0x1001, 0x15, &count), lines.lines + 1);
	assert_int_equal(count, 2);
	xp_jit_lines_of(&lines, 0x2000, 0x1000, &count);
	assert_int_equal(count, 0);
	/* A size that overflows the address. */
	assert_ptr_equal(xp_jit_lines_of(&lines, 0x1001, UINT64_MAX, &count), lines.lines + 1);
	assert_int_equal(count, lines.count - 1);
}

static void test_v2(void **state)
{
	(void)state;
	begin_unit(2);
	put("/inc\0\0", 6);
	put("/a.c\0\0\0\0b.h\0\1\0\0\0", 16);
	put_program();
	read_table(table.size);
	check_program("/a.c", "/inc/b.h");
}

/* Forms: strings of both sections, an unused digest; number 0 is the compilation's. */
static void put_v5(void)
{
	begin_unit(5);
	put("\1\1\37", 3); /* directories: path, line_strp */
	put("\2", 1);
	number(0, 4);
	number(5, 4);
	put("\3\1\10\2\13\5\36", 7); /* files: path, string; directory, data1; MD5, data16 */
	put("\3", 1);
	put("x.c\0\0"
	    "0123456789abcdef",
	    21);
	put("a.c\0\0"
	    "0123456789abcdef",
	    21);
	put("b.h\0\1"
	    "0123456789abcdef",
	    21);
	put_program();
	input.strings = "/dir\0inc";
	input.string_bytes = 9;
}

static void test_v5(void **state)
{
	(void)state;
	put_v5();
	read_table(table.size);
	check_program("/dir/a.c", "/dir/inc/b.h");
}

static void test_relocated(void **state)
{
	(void)state;
	put_v4();
	input.text = 0x7f0000000000;
	input.rela = (Elf64_Rela){
		.r_offset = (uint64_t)((uint8_t *)memmem(table.bytes, table.size, "\0\11\2", 3) + 3 - table.bytes),
		.r_info = ELF64_R_INFO(1, R_X86_64_64),
	};
	read_table(table.size);
	assert_int_equal(lines.count, 4);
	check(3, 0x7f0000000025, 7, 0, "inc/b.h");
	input.rela.r_offset = UINT64_MAX;
	read_table(table.size);
	check(3, 0x1025, 7, 0, "inc/b.h");
}

/*
 * Broken units, and units of another version, do not affect the others; of two rows with the same address one applies.
 */
static void test_units(void **state)
{
	(void)state;
	begin_unit(4);
	put("\0\0", 2);
	begin_program();
	set_address(0x500);
	put("\1\3\1\1\4\1\1\4\7\1", 10); /* a file that does not exist: no row */
	end_unit();
	begin_unit(6);
	end_unit();
	begin_unit(4);
	table.bytes[table.size - 14] = 0; /* line_range */
	put_program();
	begin_unit(4);
	put("\0z.c\0\0\0\0\0", 9);
	begin_program();
	set_address(0x3000);
	put("\1\3\1\1", 4);
	set_address(0x2000);
	put("\1", 1);
	set_address(0x4000);
	put("\0\1\1", 3);
	end_unit();
	put_v4();
	number(0xffffffff, 4); /* a 64-bit unit that is not there */
	number(UINT64_MAX, 8);
	read_table(table.size);
	assert_int_equal(lines.count, 6);
	check(0, 0x1000, 10, 0, "a.c");
	check(4, 0x2000, 2, 0, "z.c");
	check(5, 0x3000, 2, 0, "z.c");
}

static void test_cut_off(void **state)
{
	void (*const makers[])(void) = { put_v4, put_v5 };

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		setup(NULL);
		makers[i]();
		for (size_t size = 0; size < table.size; size++) {
			read_table(size);
			assert_int_equal(lines.count, 0); /* the unit claims to be longer */
			if (size > 4) {
				patch(0, size - 4);
				read_table(size);
				assert_in_range(lines.count, 0, 4);
				xp_jit_lines_free(&lines);
				patch(0, table.size - 4);
			}
		}
	}
}

/* Tables that claim endless entries, or entries of no bytes. */
static void test_claims(void **state)
{
	(void)state;
	begin_unit(5);
	put("\0\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
	put_program();
	begin_unit(5);
	put("\1\1\10\xff\xff\xff\xff\x0f", 8);
	put_program();
	begin_unit(5);
	put("\0\0\1\1\37\1", 6); /* a name far beyond its section */
	number(0x7fffffff, 4);
	put_program();
	read_table(table.size);
	assert_int_equal(lines.count, 0);
}

/* A program of rows only. */
static void test_many(void **state)
{
	enum { BYTES = 2 << 20 };
	uint8_t *bytes = malloc(table.size + BYTES + 200), *file;
	size_t file_bytes;
	uint32_t length;
	struct xp_jit_line last;
	uint64_t counts[2]; /* of lines, and of bytes of paths */
	char paths[8];
	FILE *out;

	(void)state;
	assert_non_null(bytes);
	begin_unit(4);
	put("\0a.c\0\0\0\0\0", 9);
	begin_program();
	memcpy(bytes, table.bytes, table.size);
	memset(bytes + table.size, 13 + 14 + 5, BYTES); /* next address, same line */
	length = table.size + BYTES - 4;
	memcpy(bytes, &length, 4);
	file = make_file(bytes, table.size + BYTES, &file_bytes);
	out = tmpfile();
	assert_true(out && xp_jit_lines_answer(file, file_bytes, out));
	rewind(out);
	assert_int_equal(fread(counts, sizeof(counts), 1, out), 1);
	assert_int_equal(counts[0], XP_JIT_LINES_MAX);
	assert_in_range(counts[1], 4, sizeof(paths));
	assert_int_equal(fseek(out, (long)(sizeof(last) * (XP_JIT_LINES_MAX - 1)), SEEK_CUR), 0);
	assert_int_equal(fread(&last, sizeof(last), 1, out), 1);
	assert_int_equal(fread(paths, counts[1], 1, out), 1);
	assert_int_equal(last.address, XP_JIT_LINES_MAX);
	assert_int_equal(last.line, 1);
	assert_int_equal(last.discriminator, 0);
	assert_string_equal(paths + (uintptr_t)last.file, "a.c");
	fclose(out);
	free(file);
	free(bytes);
}

/* A reader that dies or hangs costs the lines of one file. */
static void test_lost_reader(void **state)
{
	static const int signals[] = { SIGKILL, SIGSTOP, SIGKILL, SIGKILL };
	uint64_t begin_ns = xp_now_ns();
	pid_t first;

	(void)state;
	put_v4();
	read_table(table.size);
	first = reader.process.pid;
	for (size_t i = 0; i < XP_ARRAY_SIZE(signals); i++) {
		read_table(table.size);
		assert_int_equal(lines.count, 4);
		assert_int_equal(kill(reader.process.pid, signals[i]), 0);
		read_bytes(table.bytes, table.size);
		assert_int_equal(reader.failures, 1);
		assert_int_equal(lines.count + (size_t)reader.process.pid, 0);
	}
	assert_int_equal(kill(first, 0), -1);
	assert_in_range(xp_now_ns() - begin_ns, 500000000, 5000000000);
}

/* After some files in a row that the reader cannot hold, the program has no lines. */
static void test_lost_readers(void **state)
{
	size_t bytes = (size_t)6 << 30;
	void *huge = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)state;
	assert_ptr_not_equal(huge, MAP_FAILED);
	put_v4();
	for (unsigned int i = 1; i <= 3; i++) {
		read_table(table.size);
		for (unsigned int k = 1; k <= i; k++) {
			xp_jit_lines_read(&lines, &reader, huge, bytes);
			assert_int_equal(reader.failures, k);
		}
	}
	assert_int_equal(munmap(huge, bytes), 0);
	read_bytes(table.bytes, table.size);
	assert_int_equal(lines.count + (size_t)reader.process.pid, 0);
}

/* Its time is over: another one takes its place. */
static void test_old_reader(void **state)
{
	pid_t first;

	(void)state;
	put_v4();
	read_table(table.size);
	first = reader.process.pid;
	reader.end_ns = xp_now_ns();
	read_table(table.size);
	assert_int_equal(lines.count, 4);
	assert_true(reader.process.pid && reader.process.pid != first);
	assert_int_equal(kill(first, 0), -1);
}

struct answer {
	uint64_t line_count;
	uint64_t path_bytes;
	struct xp_jit_line lines[2]; /* with offsets */
	char paths[8];
};

static bool receive(const struct answer *answer, size_t size)
{
	int ends[2];
	bool is_good;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(write(ends[1], answer, size), size);
	assert_int_equal(shutdown(ends[1], SHUT_WR), 0);
	is_good = xp_jit_lines_receive(&lines, ends[0], xp_now_ns() + 1000000000);
	close(ends[0]);
	close(ends[1]);
	if (!is_good)
		assert_true(!lines.lines && !lines.paths && !lines.count);
	return is_good;
}

static void test_hostile_reader(void **state)
{
	const struct answer good = {
		2, 8, { { .address = 1 }, { .address = 2, .file = (const char *)4 } }, "abc\0def"
	};
	struct answer bad;
	int ends[2];

	(void)state;
	assert_true(receive(&good, sizeof(good)));
	check(0, 1, 0, 0, "abc");
	check(1, 2, 0, 0, "def");
	xp_jit_lines_free(&lines);
	for (size_t size = 0; size < sizeof(good); size++)
		assert_false(receive(&good, size));
#define BAD(field, value) (bad = good, bad.field = value, assert_false(receive(&bad, sizeof(bad))))
	BAD(line_count, UINT64_MAX);
	BAD(line_count, 3);
	BAD(path_bytes, UINT64_MAX);
	BAD(path_bytes, 7);
	BAD(lines[1].address, 1);
	BAD(lines[1].file, (const char *)3);
	BAD(lines[1].file, (const char *)8);
	BAD(lines[1].file, (const char *)UINTPTR_MAX);
	/* It says nothing. */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_false(xp_jit_lines_receive(&lines, ends[0], xp_now_ns() + 1000000));
	close(ends[0]);
	close(ends[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_v2),		TEST(test_v4),		 TEST(test_v5),		TEST(test_relocated),
		TEST(test_units),	TEST(test_cut_off),	 TEST(test_claims),	TEST(test_many),
		TEST(test_lost_reader), TEST(test_lost_readers), TEST(test_old_reader), TEST(test_hostile_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
