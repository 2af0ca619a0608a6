// SPDX-License-Identifier: BSD-2-Clause
#include "jit/symfile_lines.h"

#include <elfutils/libdw.h>
#include <errno.h>
#include <gelf.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/confined_reader.h"
#include "base/u64_map.h"
#include "base/util.h"

#define LIFE_NS (10 * XP_NS_PER_S)  /* of a reader: programs that compile no more need none */
#define ANSWER_NS (XP_NS_PER_S / 2) /* 300 000 lines of 20 000 functions take 0.1 s */
#define FAILURES_MAX 3		    /* in a row; then no more files of the program are read */
#define END_MS 100

static const struct xp_confined_limits limits = {
	.ns = LIFE_NS + XP_NS_PER_S,
	.cpu_seconds = 5,
	.address_bytes = (rlim_t)4 << 30,
};

/* Precedes the lines, whose `file` is an offset in the paths, and the paths. */
struct answer {
	uint64_t line_count;
	uint64_t path_bytes;
};

/* ---- the reader: libdw ---- */

struct table {
	struct xp_jit_lines lines;
	size_t line_room;
	size_t path_room;
	struct xp_u64_map offsets; /* of the paths, by libdw's address of them */
};

/* directory: of the compilation; it completes relative paths. Returns NULL if there is no room. */
static const uint32_t *offset_of(struct table *table, const char *directory, const char *path)
{
	const uint32_t *known = xp_u64_map_find(&table->offsets, (uintptr_t)path);
	struct xp_jit_lines *lines = &table->lines;
	bool is_relative = *path != '/' && directory && *directory;
	char whole[XP_JIT_LINE_PATH_BYTES_MAX];
	size_t bytes;

	if (known)
		return known;
	bytes = (size_t)snprintf(whole, sizeof(whole), "%s%s%s", is_relative ? directory : "", is_relative ? "/" : "",
				 path) +
		1;
	if (bytes > sizeof(whole) || bytes > XP_JIT_LINE_PATHS_BYTES_MAX - lines->path_bytes ||
	    XP_ARRAY_RESERVE(lines->paths, table->path_room, lines->path_bytes + bytes))
		return NULL;
	known = xp_u64_map_add(&table->offsets, (uintptr_t)path, (uint32_t)lines->path_bytes);
	memcpy(lines->paths + lines->path_bytes, whole, bytes);
	lines->path_bytes += bytes;
	return known;
}

static void add_line(struct table *table, const char *directory, Dwarf_Line *from)
{
	const char *path = dwarf_linesrc(from, NULL, NULL);
	struct xp_jit_lines *lines = &table->lines;
	const uint32_t *offset;
	unsigned int discriminator;
	Dwarf_Addr address;
	bool is_end;
	int line;

	if (!path || dwarf_lineendsequence(from, &is_end) || is_end || dwarf_lineaddr(from, &address) ||
	    dwarf_lineno(from, &line) || dwarf_linediscriminator(from, &discriminator))
		return;
	offset = offset_of(table, directory, path);
	if (!offset || XP_ARRAY_RESERVE(lines->lines, table->line_room, lines->count + 1))
		return;
	/* The last of several rows with the same address applies. */
	lines->count -= lines->count && lines->lines[lines->count - 1].address == address;
	lines->lines[lines->count++] = (struct xp_jit_line){
		address,
		(uint32_t)line,
		discriminator,
		(const char *)(uintptr_t)*offset,
	};
}

/* A broken table does not affect the others. */
static void read_tables(struct table *table, Dwarf *dwarf)
{
	Dwarf_Off offset = 0, next = 0;
	size_t file_count, directory_count, count;
	const char *const *directories;
	Dwarf_Lines *lines;
	Dwarf_Files *files;
	Dwarf_CU *unit = NULL;
	int found;

	do {
		offset = next;
		found = dwarf_next_lines(dwarf, offset, &next, &unit, &files, &file_count, &lines, &count);
		if (found || dwarf_getsrcdirs(files, &directories, &directory_count) || !directory_count)
			continue;
		for (size_t i = 0; i < count && table->lines.count < XP_JIT_LINES_MAX; i++)
			add_line(table, directories[0], dwarf_onesrcline(lines, i));
	} while (found <= 0 && next > offset);
}

/* Numbers that refer to other debug sections are relative to them, wherever the sections were loaded. */
static void apply(Elf *elf, const GElf_Rela *rela, Elf_Data *symbols, Elf_Data *to)
{
	size_t bytes = GELF_R_TYPE(rela->r_info) == R_X86_64_64 ? 8 : 4;
	GElf_Shdr section;
	GElf_Sym symbol;
	uint64_t value;

	if (bytes > to->d_size || rela->r_offset > to->d_size - bytes ||
	    !gelf_getsym(symbols, (int)GELF_R_SYM(rela->r_info), &symbol) || symbol.st_shndx >= SHN_LORESERVE ||
	    !gelf_getshdr(elf_getscn(elf, symbol.st_shndx), &section))
		return;
	value = symbol.st_value + (uint64_t)rela->r_addend + (section.sh_flags & SHF_ALLOC ? section.sh_addr : 0);
	memcpy((uint8_t *)to->d_buf + rela->r_offset, &value, bytes);
}

/* libdw itself applies none. */
static void relocate(Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header, to_header;
	GElf_Rela rela;

	while ((section = elf_nextscn(elf, section))) {
		Elf_Data *from, *symbols, *to;
		Elf_Scn *to_section;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_RELA)
			continue;
		to_section = elf_getscn(elf, header.sh_info);
		if (!gelf_getshdr(to_section, &to_header) || to_header.sh_flags & (SHF_ALLOC | SHF_COMPRESSED))
			continue;
		from = elf_getdata(section, NULL);
		symbols = elf_getdata(elf_getscn(elf, header.sh_link), NULL);
		to = elf_getdata(to_section, NULL);
		for (int i = 0; from && symbols && to && to->d_buf && gelf_getrela(from, i, &rela); i++)
			apply(elf, &rela, symbols, to);
	}
}

static int by_address(const void *a, const void *b)
{
	const struct xp_jit_line *first = a, *second = b;

	return (first->address > second->address) - (first->address < second->address);
}

/* libdw sorts the lines of each table. */
static void sort(struct xp_jit_lines *lines)
{
	size_t kept = 0;

	if (lines->count)
		qsort(lines->lines, lines->count, sizeof(*lines->lines), by_address);
	for (size_t i = 0; i < lines->count; i++)
		if (!i || lines->lines[i].address != lines->lines[i - 1].address)
			lines->lines[kept++] = lines->lines[i];
	lines->count = kept;
}

bool xp_jit_lines_answer(uint8_t *bytes, size_t size, FILE *out)
{
	struct table table = { 0 };
	struct xp_jit_lines *lines = &table.lines;
	struct answer answer;
	Dwarf *dwarf;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_memory((char *)bytes, size);
	if (elf)
		relocate(elf);
	dwarf = elf ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL;
	if (dwarf)
		read_tables(&table, dwarf);
	sort(lines);
	answer = (struct answer){ lines->count, lines->path_bytes };
	fwrite(&answer, sizeof(answer), 1, out);
	fwrite(lines->lines, sizeof(*lines->lines), lines->count, out);
	fwrite(lines->paths, 1, lines->path_bytes, out);
	xp_jit_lines_free(lines);
	xp_u64_map_free(&table.offsets);
	dwarf_end(dwarf);
	elf_end(elf);
	return !fflush(out);
}

/* ---- the reader: its process ---- */

static int serve(int fd, FILE *out, const void *arg)
{
	FILE *in = fdopen(fd, "r");
	bool is_good = in;
	uint64_t size;

	(void)arg;
	while (is_good && fread(&size, sizeof(size), 1, in) == 1) {
		uint8_t *bytes = malloc(size);

		is_good = bytes && fread(bytes, size, 1, in) == 1 && xp_jit_lines_answer(bytes, size, out);
		free(bytes);
	}
	return is_good ? 0 : 1;
}

static bool start(struct xp_jit_line_reader *reader)
{
	const struct xp_confined_reading reading = { serve, NULL, &limits };
	struct xp_child *process = &reader->process;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return false;
	if (xp_confined_reader_start(process, &reading, ends[1], ends[1])) {
		close(ends[0]);
	} else {
		close(process->fd); /* nobody opens other files for it */
		process->fd = ends[0];
		reader->end_ns = xp_now_ns() + LIFE_NS;
	}
	close(ends[1]);
	return process->pid;
}

/* A process that survives SIGKILL for too long is abandoned. */
void xp_jit_line_reader_stop(struct xp_jit_line_reader *reader)
{
	if (reader->process.pid)
		xp_child_kill(&reader->process, END_MS);
	reader->process.pid = 0;
}

/* ---- the caller ---- */

static bool wait_for(int fd, short event, uint64_t end_ns)
{
	struct pollfd poll_fd = { .fd = fd, .events = event };
	uint64_t now_ns = xp_now_ns();

	if (now_ns >= end_ns)
		return false;
	return poll(&poll_fd, 1, (int)((end_ns - now_ns) / 1000000 + 1)) >= 0 || errno == EINTR;
}

/* event: POLLIN to receive, POLLOUT to send. Returns false if not all bytes were transferred in time. */
static bool transfer(int fd, short event, void *bytes, size_t size, uint64_t end_ns)
{
	size_t done = 0;

	while (done < size) {
		void *at = (uint8_t *)bytes + done;
		ssize_t n = event == POLLIN ? recv(fd, at, size - done, MSG_DONTWAIT)
					    : send(fd, at, size - done, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0)
			done += (size_t)n;
		else if (!n || (errno != EAGAIN && errno != EINTR) || !wait_for(fd, event, end_ns))
			return false;
	}
	return true;
}

/* Whether the paths have terminators. */
static bool are_paths(const char *paths, size_t bytes)
{
	size_t length;

	for (size_t at = 0; at < bytes; at += length + 1) {
		length = strnlen(paths + at, bytes - at);
		if (length >= XP_MIN(bytes - at, (size_t)XP_JIT_LINE_PATH_BYTES_MAX))
			return false;
	}
	return true;
}

/* Offsets become pointers. Returns false if the lines are not what the header promises. */
static bool set_paths(struct xp_jit_lines *lines)
{
	for (size_t i = 0; i < lines->count; i++) {
		struct xp_jit_line *line = &lines->lines[i];
		uintptr_t offset = (uintptr_t)line->file;

		if (offset >= lines->path_bytes || (offset && lines->paths[offset - 1]) ||
		    (i && line->address <= line[-1].address))
			return false;
		line->file = lines->paths + offset;
	}
	return true;
}

bool xp_jit_lines_receive(struct xp_jit_lines *lines, int fd, uint64_t end_ns)
{
	struct answer answer;

	*lines = (struct xp_jit_lines){ 0 };
	if (!transfer(fd, POLLIN, &answer, sizeof(answer), end_ns) || answer.line_count > XP_JIT_LINES_MAX ||
	    answer.path_bytes > XP_JIT_LINE_PATHS_BYTES_MAX)
		return false;
	lines->lines = calloc(answer.line_count + 1, sizeof(*lines->lines));
	lines->paths = malloc(answer.path_bytes + 1);
	lines->count = answer.line_count;
	lines->path_bytes = answer.path_bytes;
	if (lines->lines && lines->paths &&
	    transfer(fd, POLLIN, lines->lines, lines->count * sizeof(*lines->lines), end_ns) &&
	    transfer(fd, POLLIN, lines->paths, lines->path_bytes, end_ns) &&
	    are_paths(lines->paths, lines->path_bytes) && set_paths(lines))
		return true;
	xp_jit_lines_free(lines);
	return false;
}

void xp_jit_lines_read(struct xp_jit_lines *lines, struct xp_jit_line_reader *reader, const uint8_t *bytes, size_t size)
{
	uint64_t now_ns = xp_now_ns(), end_ns = now_ns + ANSWER_NS, request = size;

	*lines = (struct xp_jit_lines){ 0 };
	if (reader->failures == FAILURES_MAX)
		return;
	if (now_ns >= reader->end_ns)
		xp_jit_line_reader_stop(reader);
	if ((reader->process.pid || start(reader)) &&
	    transfer(reader->process.fd, POLLOUT, &request, sizeof(request), end_ns) &&
	    transfer(reader->process.fd, POLLOUT, (void *)bytes, size, end_ns) &&
	    xp_jit_lines_receive(lines, reader->process.fd, end_ns)) {
		reader->failures = 0;
		return;
	}
	xp_jit_line_reader_stop(reader);
	if (++reader->failures == FAILURES_MAX)
		xp_debug("code that a program makes has no source lines any more: %d of its symfiles in a row could "
			 "not be read",
			 FAILURES_MAX);
}

void xp_jit_lines_free(struct xp_jit_lines *lines)
{
	free(lines->lines);
	free(lines->paths);
	*lines = (struct xp_jit_lines){ 0 };
}

/* Returns the first line at or after an address. */
static size_t first_from(const struct xp_jit_lines *lines, uint64_t address)
{
	return XP_FIND_FIRST(lines->count, i, lines->lines[i].address < address);
}

const struct xp_jit_line *xp_jit_lines_of(const struct xp_jit_lines *lines, uint64_t start, uint64_t size,
					  size_t *count)
{
	size_t first = first_from(lines, start);
	uint64_t end;
	/* A target may make up a size that overflows the address. */
	bool has_end = !__builtin_add_overflow(start, size, &end);

	*count = (has_end ? first_from(lines, end) : lines->count) - first;
	return *count ? lines->lines + first : NULL;
}
